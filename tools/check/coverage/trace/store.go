package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lightmetal/tools/lmrun/files"
)

// Path is where a folder keeps what was seen of a program of these bytes, whatever
// its name was.
func (p *Program) Path(folder string) string {
	return filepath.Join(folder, fmt.Sprintf("%x.seen", p.Sum))
}

// Load gives what was seen so far, nothing where there is no file.
func (p *Program) Load(folder string) ([]Seen, error) {
	seen := make([]Seen, len(p.Words))
	data, err := os.ReadFile(p.Path(folder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return seen, nil
	case err == nil && len(data) != len(seen):
		return nil, fmt.Errorf("%s: %d bytes, the program has %d instructions", p.Path(folder),
			len(data), len(seen))
	}
	for i := range data {
		seen[i] = Seen(data[i])
	}
	return seen, err
}

// Add adds what was seen to what a folder keeps. One process at a time may.
func (p *Program) Add(folder string, seen []Seen) error {
	before, err := p.Load(folder)
	if err != nil {
		return err
	}
	data := make([]byte, len(seen))
	for i := range seen {
		data[i] = byte(seen[i] | before[i])
	}
	return files.Write(p.Path(folder), data, 0o666, files.Replace)
}
