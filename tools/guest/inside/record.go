package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func init() { scenarios["record"] = recorded }

// recorded runs a program of this guest under lm record, on a resource of the
// only device with these ids, or on the device by VFIO, and prints the record:
//
//	IDS RESOURCE|vfio PROGRAM ARGUMENTS
//
// PATH in the arguments is the resource's path, DEVICE the device's name.
func recorded(args []string) int {
	at, err := address(args[0])
	if err == nil && args[1] == "vfio" {
		err = (&bench{lane: "vfio", edu: at, ivshmem: at, nvme: at}).prepare()
	} else if err == nil {
		err = os.WriteFile(filepath.Join(devices, at, "enable"), []byte("1"), 0)
	}
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	const out = "/tmp/out.record"
	c := exec.Command("/lm", "record", "-o", out, "--")
	for _, arg := range args[2:] {
		c.Args = append(c.Args, strings.NewReplacer("PATH", filepath.Join(devices, at, args[1]), "DEVICE", at).Replace(arg))
	}
	c.Stdout, c.Stderr = os.Stdout, os.Stdout
	_ = c.Run()
	data, err := os.ReadFile(out)
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	text := base64.StdEncoding.EncodeToString(data)
	for len(text) > 0 {
		n := min(len(text), 120)
		fmt.Println("record:", text[:n])
		text = text[n:]
	}
	return status(c.ProcessState)
}
