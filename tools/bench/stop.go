package main

// stopped is an error that ends what is measured: nothing that the bench asks of the
// machine and of its own programs may fail, and none of it goes on without the answer.
type stopped struct{ error }

// check stops with an error, if there is one.
func check(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// must is a value that there has to be.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// try gives the error that do stops with.
func try(do func()) (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case stopped:
			err = reason.error
		default:
			panic(reason)
		}
	}()
	do()
	return nil
}
