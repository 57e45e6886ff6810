package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lightmetal/tools/lmrun/files"
)

// Path returns the path of the file in a directory that records what was seen of this program. The
// name depends only on the bytes of the program.
func (p *Program) Path(folder string) string {
	return filepath.Join(folder, fmt.Sprintf("%x.seen", p.Sum))
}

// Load returns what was seen so far, or nothing if there is no file.
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

// Add adds what was seen to the file in a directory. Only one process at a time may do so.
func (p *Program) Add(folder string, seen []Seen) error {
	before, err := p.Load(folder)
	if err != nil {
		return err
	}
	data := make([]byte, len(seen))
	for i := range seen {
		data[i] = byte(seen[i] | before[i])
	}
	return files.Write(p.Path(folder), data, 0o666, files.OpenToReplace)
}
