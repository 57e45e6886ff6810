package files

// Outputs are outputs that come together; nil stands for none.
type Outputs []*Output

// Commit puts all in place, and none before all are on the disk.
func (list Outputs) Commit() error {
	for _, f := range list {
		if f == nil {
			continue
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	for _, f := range list {
		if f == nil {
			continue
		}
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// Discard removes what is not in place.
func (list Outputs) Discard() {
	for _, f := range list {
		f.Discard()
	}
}
