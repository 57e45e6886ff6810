# shellcheck shell=bash
# Part of build.sh: what is delivered: boot images, installed files, the Debian package, the SBOM.

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

# install_files PREFIX builds and installs programs, man pages and completion. Their permissions do
# not depend on the umask.
install_files() {
	local prefix=$1 made=$out/_install arch name
	rm -rf "$made" && mkdir -p "$made/man"
	for arch in arm64 amd64; do
		build_shipped $arch "$made/lmrun-$arch" ./tools/lmrun
		build_shipped $arch "$made/lminit-$arch" ./tools/lminit
	done
	build_static "$(go env GOARCH)" "$made/lm" ./tools/lm
	"$made/lmrun-$(go env GOARCH)" -help >"$made/lmrun.txt"
	"$made/lm" man "$made/man" "$made/lmrun.txt"
	"$made/lm" completion bash >"$made/bash"
	"$made/lm" completion zsh >"$made/zsh"
	"$made/lm" completion fish >"$made/fish"
	install -d -m 755 "$prefix" "$prefix/bin" "$prefix/lib/lightmetal" \
		"$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
		"$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
	install -m 755 "$made/lm" "$prefix/bin/lm"
	install -m 755 "$made/lmrun-$(go env GOARCH)" "$prefix/bin/lmrun"
	install -m 755 "$made"/lmrun-* "$made"/lminit-* "$prefix/lib/lightmetal"
	install -m 644 "$made"/man/*.1 "$prefix/share/man/man1"
	install -m 644 "$made/bash" "$prefix/share/bash-completion/completions/lm"
	install -m 644 "$made/zsh" "$prefix/share/zsh/site-functions/_lm"
	install -m 644 "$made/fish" "$prefix/share/fish/vendor_completions.d/lm.fish"
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

# cmd_deb builds the Debian package. Its bytes do not depend on where it is built.
cmd_deb() {
	local arch root=$PWD/$out/_deb file
	command -v dpkg-deb >/dev/null || { warn "deb: dpkg-deb is not here"; exit 69; }
	arch=$(go env GOARCH)
	file=$out/lightmetal_${version_number}_$arch.deb
	rm -rf "$root" && mkdir -p "$root"
	install_files "$root/usr"
	install -d -m 755 "$root/DEBIAN" && chmod 755 "$root"
	cat >"$root/DEBIAN/control" <<-TEXT
		Package: lightmetal
		Version: $version_number
		Architecture: $arch
		Maintainer: lightmetal <maintainers@lightmetal.invalid>
		Section: devel
		Priority: optional
		Description: replay an accelerator workload from one file
		 lm makes, checks and replays Light Metal binaries; lmrun replays them on a target.
	TEXT
	chmod 644 "$root/DEBIAN/control"
	find "$root" -exec touch -h -d @0 {} +
	SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -Zgzip --build "$root" "$file" >/dev/null
	say "$file: $(wc -c <"$file") bytes"
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
	if command -v dpkg-deb >/dev/null; then ./build.sh deb || return; fi
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
			liblightmetal-*.a image-qemu-virt lightmetal_*.deb "${@:2}" | LC_ALL=C sort
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
