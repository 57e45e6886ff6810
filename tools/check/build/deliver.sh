# shellcheck shell=bash
# Part of build.sh: what is delivered: boot images, installed files, the SBOM. The Debian packages
# are in package.sh.

# cmd_image BOARD [--signed] [FLAG...] IMAGE... builds a boot image. Without arguments it prints
# the boards and flags, and ends with status 64.
cmd_image() {
	local board=${1:-} here=$PWD tags=
	mkdir -p "$out"
	go build -o "$out/bootimage" ./tools/ship/bootimage
	if [[ -z $board || $board == -* ]]; then
		warn "usage: ./build.sh image BOARD [--signed] [FLAGS] IMAGE.lmb..." \
			"$("$out/bootimage" boards)"
		"$out/bootimage" image --help || true
		exit 64
	fi
	shift
	local program word words=() programs=$here/$out/image-programs
	for word; do
		if [[ $word == --signed ]]; then tags=" -tags=signed"; else words+=("$word"); fi
	done
	set -- "${words[@]}"
	if [[ -n $tags && " $*" != *" --key"* && " $*" != *" --config"* ]]; then
		warn "image: --signed without a key checks no signature: name the file of public keys on" \
			"the board by --key /keys.pub, and pack it by --add FILE.pub=/keys.pub" \
			"(\`lm sign --new-key\` makes FILE.pub); or use a --config with a key line for each" \
			"image"
		exit 64
	fi
	for program in lmrun lminit; do
		GOFLAGS+=$tags build_shipped arm64 "$programs/arm64/$program" ./tools/$program
		GOFLAGS+=$tags build_shipped "$(go env GOARCH)" "$programs/$program" ./tools/$program
	done
	if [[ " $*" == *" "-dtb* || " $*" == *" "--dtb* ]]; then
		{ ensure_installed mkimage u-boot-tools && ensure_installed dtc device-tree-compiler; } ||
			{ warn "image: $missing is not here"; exit 69; }
	fi
	cd "$start_dir"
	"$here/$out/bootimage" image --board "$board" --lmrun "$programs/arm64/lmrun" \
		--lminit "$programs/arm64/lminit" --verifier "$programs/lminit" \
		--out "$here/$out/image-$board" "$@"
}

# The folder for what is built only to be installed.
installed=$out/_install

# build_boards FOLDER builds the programs of targets into FOLDER/PROGRAM-GOARCH.
build_boards() {
	local arch
	for arch in arm64 amd64; do
		build_shipped $arch "$1/lmrun-$arch" ./tools/lmrun
		build_shipped $arch "$1/lminit-$arch" ./tools/lminit
	done
}

# build_texts writes man pages and completion into $installed, with the lm that is there.
build_texts() {
	local here made=$installed
	here=$(go env GOARCH)
	mkdir -p "$made/man" "$made/completion"
	"$made/boards/lmrun-$here" -help >"$made/lmrun.txt"
	"$made/lm-$here" man "$made/man" "$made/lmrun.txt" "$@"
	"$made/lm-$here" completion bash >"$made/completion/lm"
	"$made/lm-$here" completion zsh >"$made/completion/_lm"
	"$made/lm-$here" completion fish >"$made/completion/lm.fish"
}

# install_files PREFIX builds and installs programs, man pages and completion. Their permissions do
# not depend on the umask.
install_files() {
	local prefix=$1 made=$installed here
	here=$(go env GOARCH)
	rm -rf "$made" && mkdir -p "$made"
	build_boards "$made/boards"
	build_static "$here" "$made/lm-$here" ./tools/lm
	build_texts
	install -d -m 755 "$prefix" "$prefix/bin" "$prefix/lib/lightmetal" \
		"$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
		"$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
	install -m 755 "$made/lm-$here" "$prefix/bin/lm"
	install -m 755 "$made/boards/lmrun-$here" "$prefix/bin/lmrun"
	install -m 755 "$made"/boards/* "$prefix/lib/lightmetal"
	install -m 644 "$made"/man/*.1 "$prefix/share/man/man1"
	install -m 644 "$made/completion/lm" "$prefix/share/bash-completion/completions/lm"
	install -m 644 "$made/completion/_lm" "$prefix/share/zsh/site-functions/_lm"
	install -m 644 "$made/completion/lm.fish" "$prefix/share/fish/vendor_completions.d/lm.fish"
}

# cmd_install [PREFIX] installs into PREFIX below DESTDIR.
cmd_install() {
	[[ $# -le 1 && ${1-/} == [!-]* ]] || { warn "install takes a PREFIX"; exit 64; }
	local prefix=${1:-/usr/local}
	[[ $prefix == /* ]] || prefix=$start_dir/$prefix
	mkdir -p "$out"
	{ mkdir -p "${DESTDIR:-}$prefix" 2>/dev/null && [[ -w ${DESTDIR:-}$prefix ]]; } ||
		{
			warn "install: ${DESTDIR:-}$prefix is not writable; name another folder, or become root"
			exit 77
		}
	install_files "${DESTDIR:-}$prefix"
	say "$prefix: bin/lm, bin/lmrun, lib/lightmetal for boards, man pages and completion"
}

# cmd_sbom writes the SBOM of lmrun and the list of known vulnerabilities.
cmd_sbom() {
	local arch
	mkdir -p "$out"
	for arch in arm64 amd64; do build_shipped $arch "$out/lmrun-$arch" ./tools/lmrun; done
	go run ./tools/ship/bootimage sbom --name lmrun "$out/lmrun-arm64" "$out/lmrun-amd64" \
		>"$out/sbom.spdx.json"
	cp runtime/vex.openvex.json "$out/lmrun.openvex.json"
	say "$out/sbom.spdx.json" "$out/lmrun.openvex.json"
}

# build_delivery builds what list_delivery lists. The current folder is a copy of the tree.
build_delivery() {
	if command -v dpkg-deb >/dev/null && ensure_cross_compiler arm64; then
		# shellcheck disable=SC2046 # nightly, it is both architectures
		./build.sh deb $([[ -n $LM_NIGHTLY ]] || go env GOARCH) || return
	fi
	./build.sh sbom || return
	./build.sh image qemu-virt --device pci:1234:11e8 --seal testdata/images/edu.lmb || return
	if ensure_cross_compiler arm64; then ./build.sh archive || return; fi
}

# list_delivery FOLDER [TEST...] prints the files and folders of a delivery, or only those for which
# a test of `find` succeeds.
list_delivery() {
	(
		cd "$1" || return
		find lmrun-arm64 lmrun-amd64 sbom.spdx.json lmrun.openvex.json \
			liblightmetal-*.a image-qemu-virt lightmetal*.deb "${@:2}" | LC_ALL=C sort
	)
}

# compare_deliveries FOLDER FOLDER compares the files of two deliveries and prints how many were
# compared.
compare_deliveries() {
	local list name status=0
	mapfile -t list < <(list_delivery "$1" -type f)
	diff <(list_delivery "$1") <(list_delivery "$2") || status=1
	for name in "${list[@]}"; do
		cmp "$1/$name" "$2/$name" || status=1
	done
	say "${#list[@]} files of two builds compared"
	return $status
}
