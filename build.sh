#!/usr/bin/env bash
# Builds, tests and shows lightmetal. `./build.sh help` lists the commands. Function cmd_COMMAND
# in one of the parts below runs a command, step_STEP a step of `test`. `shellcheck -ax build.sh`
# checks this file and all parts.
set -euo pipefail
start_dir=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
if [[ ! -f go.mod || ! -f fbs/image.fbs || ! -d tools/check/build ]]; then
	echo "build.sh belongs in the top folder of lightmetal" >&2
	exit 64
fi

# Binaries depend only on the source, and Go does not download another version of itself. With
# -trimpath, what Go has compiled in one folder also serves in copies of the tree in other folders.
export GOFLAGS="${GOFLAGS:--buildvcs=false -trimpath}" GOTOOLCHAIN="${GOTOOLCHAIN:-local}"
export DEBIAN_FRONTEND=noninteractive

# The version of Go with which steadiness and seal were tested: runtime/GO.md.
go_tried=go1.26.8

# Every command writes to $out. Downloads are in $cache, which `clean` keeps.
out=build
cache=build/cache

source tools/check/build/common.sh   # messages, and installation of what a command needs
source tools/check/build/fetch.sh    # kernels, QEMU and programs for guests, from Debian
source tools/check/build/programs.sh # the programs and the C archive that a target gets
source tools/check/build/guest.sh    # arm64 guests under QEMU
source tools/check/build/bare.sh     # a firmware without an operating system, under QEMU
source tools/check/build/deliver.sh  # boot images, installation, SBOM
source tools/check/build/package.sh  # Debian packages
source tools/check/build/generate.sh # generated code, and kernels of accelerators
source tools/check/build/measure.sh  # sizes, statements, speed
source tools/check/build/fuzz.sh     # fuzzing and simulation
source tools/check/build/player.sh   # checks of the player in C
source tools/check/build/demo.sh     # the first look
source tools/check/build/steps.sh    # the steps of `test`
source tools/check/build/test.sh     # `test`: runs the steps and prints the summary

# print_help prints all commands.
print_help() {
	cat <<'TEXT'
usage: ./build.sh COMMAND

  demo                    a first look: import a capture, look inside, replay it; needs only Go
  test [STEP...]          what a change may break, or only the steps named; steps are
                            fmt vet lint gen kernels unit player race arm64 purego
                            cross reproducible recipes guest bench
  test quick              gofmt, vet and short tests, in minutes
  test nightly            what takes hours: the steps unit fuzz breaks guest trials coverage
                            package reproducible, at length
  record-trials           lm record in the arm64 guest against QEMU's own trace, at length: minutes;
                            and of programs by clang and rustc, where they are installed;
                            mmiotrace in an amd64 guest; with LM_TTKMD=FILE.ko and
                            LM_TTUMD=PROGRAM of a client of Tenstorrent's library
  object-coverage         which instructions and branches of lmrun-arm64, as it ships, the guest
                            reaches, signed and not, on two kinds of processor; build/coverage has
                            more
  soak [FRAMES]           frames through QEMU's NVMe and a served Wormhole, 100000 or so many, with
                            a kill or a fault of the device after every thousand
  qemu IMAGE [--with DEVICE] [FLAGS]
                          replay IMAGE on an arm64 machine under QEMU that has an edu, an ivshmem
                            and an nvme device; FLAGS and exit status are lmrun's; files of -input
                            and -output are this machine's; what the devices kept lies in build/qemu
                            --with mock:wormhole (or ttsim:LIBRARY): on that, which lm serve makes a
                            PCI device of the machine, with a QEMU of 10.1 or later
  bare IMAGE [--with DEVICE] [--input NAME=FILE] [--sequence NAME] [--budget N] [--dump]
       [--pack FILE]
                          replay IMAGE without an operating system: testdata/firmware/bare in the
                            flash of an arm64 machine under QEMU, which has the devices of `qemu`;
                            prints outputs, their first values and checksums (--dump: all bytes),
                            the size of the firmware, and how many instructions it takes from
                            reset to the first store into a BAR; --budget: in slices of a cyclic
                            task, of N commands each; --pack FILE: only writes flash 1 to FILE, with
                            Go alone; exit status as lmrun's
  cross                   static lmrun and lminit for arm64 and amd64 in build/; prints what it
                            wrote and what to copy to the board
  archive [--mock] [--signed]
                          the runtime for firmware in C, in build/: liblightmetal-arm64.a and
                            -amd64.a and lightmetal.h, with their sizes; --mock:
                            liblightmetal-mock-*.a with mock devices, and firmware-*, the example;
                            --signed: with lm_open_signed
  image BOARD [--signed] [FLAGS] IMAGE...
                          what BOARD boots to do nothing but replay, in build/image-BOARD: an
                            initramfs with lminit as PID 1, lmrun, the images and a configuration,
                            and what the boot loader needs; without arguments: the boards, and the
                            FLAGS
  install [PREFIX]        lm, lmrun, what boards get (lib/lightmetal), man pages and completion,
                            into PREFIX, by default /usr/local, below DESTDIR where that is set
  deb [ARCH...]           Debian packages in build/, of arm64 and amd64 if no ARCH is named:
                            lightmetal (lmrun, lmrun-signed, lminit, the service),
                            lightmetal-dev (C archives, lmplay), lightmetal-tools (lm) and
                            lightmetal-doc (pages); the same bytes wherever they are built
  sbom                    build/sbom.spdx.json: what lmrun is linked from, SPDX 2.3;
                            build/lmrun.openvex.json: known vulnerabilities of that, and why they do
                            not matter, OpenVEX 0.2.0
  gen [--check]           Go code from fbs/image.fbs, and the tables of boards for the player in C;
                            --check: only compare them with the tree
  bench [--full]          speed and memory, beside C, and which goals are met: in about a minute,
                            or all of it in about five
  kernels [--check]       RISC-V kernels of testdata/kernels; --check: only compare them with the
                            tree
  simulate [DURATION | --break N [SEED]]
                          the runner in simulated worlds, of new seeds: random images on devices
                            that fail, on hosts that kill, cut, fill up and jump, in virtual time; a
                            minute if none is named. --break: the code is broken at N places by
                            chance; how many are noticed, and by whom
  fuzz DURATION           every fuzz target for that long, such as 10m, or that often, such as
                            100000x
  lint                    gofmt, go vet, staticcheck
  measure [-tags TAGS]    how many statements target, host tools, checks and tests have, and lmrun
                            with its build tags; words of comment per line of code of each package
                            of the target; -tags: only what lmrun with these tags compiles
  clean [--all]           remove build/; --all: the downloaded kernel in build/cache too
  help                    this text

What a command needs beyond Go it installs, when it is root on Debian. Otherwise it says what is
missing, and `test` says at the end what it skipped for that reason. LM_GUEST_KERNEL=FILE makes
`test` and `qemu` boot another arm64 kernel than Debian's cloud kernel, LM_GUEST_MODULES=FOLDER has
the modules of that kernel for `test`; LM_GUEST_TIMEOUT=10m allows `qemu` more than the one minute a
run may take; LM_QEMU=FILE is the QEMU for served devices.
TEXT
}

# cmd_clean [--all] removes $out except for the downloads, with --all also these.
cmd_clean() {
	if [[ ${1:-} == --all ]]; then
		rm -rf "$out"
	elif [[ -d $out ]]; then
		find "$out" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
	fi
}

command -v go >/dev/null || { warn "Go is missing; go.mod says which version is needed"; exit 69; }
[[ $(go env GOVERSION) == "$go_tried" ]] ||
	warn "this is $(go env GOVERSION); the runtime was tried with $go_tried:" \
		"runtime/GO.md says what depends on it"
command=${1:-help}
[[ $# -eq 0 ]] || shift
case ${1:-} in -h | --help) command=help ;; esac
case $command in
help | -h | --help) print_help ;;
demo | test | record-trials | object-coverage | soak | qemu | bare | cross | archive | image | \
	install | deb | sbom | gen | bench | simulate | fuzz | kernels | lint | measure | clean)
	"cmd_$command" "$@"
	;;
*)
	warn "no command $command; ./build.sh help lists them"
	exit 64
	;;
esac
