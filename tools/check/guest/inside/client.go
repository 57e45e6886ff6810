package main

import (
	"fmt"
	"os"
	"time"
)

func init() { scenarios["client"] = client }

// client runs /client, which finds its card by Tenstorrent's driver, under lm
// record, whose record it prints, and then by itself.
func client([]string) int {
	if _, err := ready("tt", ""); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	_ = os.MkdirAll("/dev/shm", 0o755) // the library's mutexes
	exit, err := recordedOnce([]string{"/client"}, 4*time.Minute)
	if err != nil || exit != 0 {
		fmt.Println("inside:", err)
		return 1
	}
	output, exit := run("/client")
	fmt.Println(output)
	return exit
}
