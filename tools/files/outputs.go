package files

// Outputs are outputs that come together; nil stands for none.
type Outputs []*Output

// Commit puts all in place, and none before all are on the disk.
func (list Outputs) Commit() (err error) {
	for _, step := range [...]func(*Output) error{(*Output).sync, (*Output).place} {
		for _, f := range list {
			if f != nil && err == nil {
				err = step(f)
			}
		}
	}
	return err
}

// Discard removes what is not in place.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}
