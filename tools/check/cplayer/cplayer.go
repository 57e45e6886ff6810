// Package cplayer checks the freestanding player in runtime/c: its tests compare verdicts, accesses
// and outputs of the player with those of the Go runtime. The folder `harness` has the program
// that runs the player on the host.
package cplayer

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Build compiles the player and harness/NAME.c with a C compiler, and returns the path of the
// program. The parameter `root` is the top folder of the tree, and `dir` the folder of the program.
// Further flags follow those of every build.
func Build(compiler, root, dir, name string, flags ...string) (program string, err error) {
	program = filepath.Join(dir, name)
	player := filepath.Join(root, "runtime", "c")
	arguments := []string{"-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I", player,
		"-o", program, filepath.Join(player, "lmplay.c"),
		filepath.Join(root, "tools/check/cplayer/harness", name+".c")}
	out, err := exec.Command(compiler, append(arguments, flags...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return program, nil
}
