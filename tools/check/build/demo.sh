# shellcheck shell=bash
# Part of build.sh: the first look at lightmetal.

# print_and_run COMMAND... prints a command and runs it.
print_and_run() {
	say "\$ $*"
	"$@"
}

# cmd_demo imports a capture, prints its content and replays it on mocks.
cmd_demo() {
	mkdir -p "$out"
	say "Building lm, the host tool, and lmrun, the runner that a target gets."
	go build -ldflags "-X 'main.version=lm $(print_version)'" -o "$out/lm" ./tools/lm
	build_shipped "$(go env GOARCH)" "$out/lmrun" ./tools/lmrun

	local image=$out/edu.lmb
	say "" "testdata/captures/edu.qemutrace is a log of what a program did to QEMU's edu device." \
		"lm makes one file of it that holds everything a replay needs:"
	print_and_run "$out/lm" import --from qemu --region edu-mmio --base 0x10000000 --board edu \
		testdata/captures/edu.qemutrace -o "$image"
	say "" "What the file is, and for which device:"
	print_and_run "$out/lm" info "$image"
	say "" "Its first commands, as text that lm asm reads back:"
	say "\$ $out/lm dump $image | head -25"
	"$out/lm" dump "$image" | sed -n 1,25p
	say "" "A replay on a model of the device that refuses whatever hardware could:"
	print_and_run "$out/lm" replay --device mock:edu "$image"
	local size=$(($(wc -c <"$out/lmrun") / 1024))
	say "" "Every value that the recorded program read was read again and compared: the model" \
		"behaves as the recorded device did. On a real one, $out/lmrun ($size KiB, static) does" \
		"the same."
	say "./build.sh qemu $image tries that on an arm64 machine under QEMU."

	say "" "A Wormhole has cores. This capture loads a program for one of them, stores two" \
		"inputs, starts it and reads the output; with both named, an image takes new ones. The" \
		"model runs the program:"
	print_and_run "$out/lm" import --from mmiotrace \
		--input a=1,1,0x20000,int32,256 --input b=1,1,0x21000,int32,256 \
		--output d=1,1,0x23000,int32,256 testdata/captures/wh.twoop.mmiotrace -o "$out/twoop.lmb"
	print_and_run "$out/lm" replay --device mock:wormhole --check-golden --output d="$out/d.npy" \
		"$out/twoop.lmb"
	say "" "The output is what the vendor's simulator returned when it was recorded;" \
		"$out/d.npy has it for NumPy."
}
