# shellcheck shell=bash
# Part of build.sh: the Debian packages. tools/ship/debian/PACKAGE.install lists the files of each,
# as debhelper's files of this name do: SOURCE FOLDER.

# The folder with the lists, the descriptions and the maintainer scripts of the packages.
debian=tools/ship/debian

# cmd_deb [ARCH...] builds the packages. Their bytes do not depend on where they are built.
cmd_deb() {
	local arches=("$@") arch
	[[ $# -gt 0 ]] || arches=(arm64 amd64)
	for arch in "${arches[@]}"; do
		[[ $arch == arm64 || $arch == amd64 ]] ||
			{ warn "deb: there are packages of arm64 and amd64, not of $arch"; exit 64; }
	done
	command -v dpkg-deb >/dev/null || { warn "deb: dpkg-deb is not here"; exit 69; }
	for arch in "${arches[@]}"; do
		ensure_cross_compiler "$arch" || { warn "deb: $missing is not here"; exit 69; }
	done
	rm -rf "$installed" && mkdir -p "$installed"
	build_packaged "${arches[@]}"
	for arch in "${arches[@]}"; do
		pack lightmetal "$arch"
		pack lightmetal-dev "$arch"
		pack lightmetal-tools "$arch"
	done
	pack lightmetal-doc all
}

# build_packaged GOARCH... builds what the lists call made/.
build_packaged() {
	local arch program made=$installed here
	here=$(go env GOARCH)
	build_boards "$made/boards"
	for arch in arm64 amd64; do
		GOFLAGS+=" -tags=signed" \
			build_shipped $arch "$made/boards/lmrun-signed-$arch" ./tools/lmrun
	done
	for arch in "$@"; do
		mkdir "$made/$arch"
		build_static "$arch" "$made/$arch/lm" ./tools/lm
		ensure_cross_compiler "$arch"
		build_archive "$arch" "$made/$arch/liblightmetal.a"
		build_archive "$arch" "$made/$arch/liblightmetal-signed.a" signed
		for program in lmrun lmrun-signed lminit; do
			ln "$made/boards/$program-$arch" "$made/$arch/$program"
		done
	done
	if [[ -e $made/$here/lm ]]; then
		ln "$made/$here/lm" "$made/lm-$here"
	else
		build_static "$here" "$made/lm-$here" ./tools/lm
	fi
	"$made/boards/lminit-$here" -help >"$made/lminit.txt"
	"$made/boards/lmrun-signed-$here" -help >"$made/lmrun-signed.txt"
	testdata/recipes/update/lightmetal-place --help >"$made/lightmetal-place.txt"
	build_texts "$made/lminit.txt" "$made/lmrun-signed.txt" "$made/lightmetal-place.txt"
	gzip -9 -n "$made"/man/*.1
	gzip -9 -n -c tools/CHANGES.md >"$made/changelog.gz"
	print_copyright >"$made/copyright"
	mkdir "$made/pages"
	tar -c --exclude=./build --exclude=./.git $(print_pages) | tar -x -C "$made/pages"
}

# print_pages prints the paths of all pages, and of the pictures that they show.
print_pages() {
	find . \( -path ./build -o -path ./.git \) -prune -o -name '*.md' -print
	grep -ohE '!\[[^]]*\]\([^)]+\)' README.md | sed 's/.*(\(.*\))/.\/\1/'
}

# print_copyright prints the licenses of what the programs are linked from.
print_copyright() {
	local path folder
	cat <<-TEXT
		lightmetal has no license yet: its owner has not chosen one.

		The programs are linked from Go and from these modules.
	TEXT
	{
		echo "Go $(go env GOROOT)"
		go list -deps -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Dir}}{{end}}{{end}}' \
			./tools/lm ./tools/lmrun ./runtime/capi | sort -u
	} | while read -r path folder; do
		printf '\n== %s\n\n' "$path"
		cat "$folder"/LICENSE* || { warn "$path has no license"; return 1; }
	done
}

# pack PACKAGE ARCH builds a package of the files in its list.
pack() {
	local root=$PWD/$out/_deb file=$out/$1_${version_number}_$2.deb
	local script source folder triplet=aarch64-linux-gnu
	[[ $2 == arm64 ]] || triplet=x86_64-linux-gnu
	rm -rf "$root" && mkdir -p "$root" && chmod 755 "$root"
	while read -r source folder; do
		install_listed "${source/#made/$installed}" "$root/$folder"
	done < <(sed "s|@ARCH@|$2|; s|@TRIPLET@|$triplet|" "$debian/$1.install")
	write_control "$root" "$1" "$2"
	for script in postinst prerm postrm; do
		[[ ! -e $debian/$1.$script ]] ||
			install -m 755 "$debian/$1.$script" "$root/DEBIAN/$script"
	done
	find "$root" -exec touch -h -d @0 {} +
	SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -Zgzip --build "$root" "$file" >/dev/null
	say "$file: $(wc -c <"$file") bytes"
}

# install_listed SOURCE FOLDER installs files, or all files below a folder. Permissions do not
# depend on the umask.
install_listed() {
	local name file mode
	# shellcheck disable=SC2086 # the list may have a pattern
	find $1 -type f -printf '%p\t%P\n' | while IFS=$'\t' read -r file name; do
		mode=644
		case $2 in */bin | */usr/lib/lightmetal) mode=755 ;; esac
		[[ $(head -c 2 "$file") != "#!" ]] || mode=755
		name=$2/${name:-${file##*/}}
		(umask 022 && mkdir -p "${name%/*}")
		install -m $mode "$file" "$name"
	done
}

# write_control ROOT PACKAGE ARCH writes the description of a package and the checksums of its
# files.
write_control() {
	(umask 022 && mkdir "$1/DEBIAN")
	(
		cd "$1"
		find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums
	)
	local kib
	kib=$(find "$1/usr" -type f -printf '%s\n' |
		awk '{ n += int(($1 + 1023) / 1024) } END { print n }')
	# With an empty RS, a record of awk is a paragraph.
	awk -v RS= -v name="Package: $2" 'index($0 "\n", name "\n") == 1' "$debian/control" |
		sed "s/^Architecture: .*/Architecture: $3\n\
Version: $version_number\n\
Installed-Size: $kib\n\
Priority: optional\n\
Maintainer: lightmetal <maintainers@lightmetal.invalid>/" >"$1/DEBIAN/control"
	chmod 644 "$1/DEBIAN/control" "$1/DEBIAN/md5sums"
}

# step_package installs the packages in a bare Debian, runs the service there, and removes them.
step_package() {
	local debian=$PWD/$cache/debian.tar status=0
	[[ $EUID -eq 0 ]] || skip_step "needs root, to change the root directory"
	ensure_installed mmdebstrap mmdebstrap || skip_or_fail_step "$missing is not here"
	if [[ ! -e $debian ]]; then
		mkdir -p "$cache"
		with_progress "a bare Debian" download_debian "$debian" ||
			skip_or_fail_step "no bare Debian; see $out/apt.log"
	fi
	cmd_deb "$(go env GOARCH)"
	tools/ship/debian/trial.sh "$debian" "$out" "$PWD/$out/_package" || status=$?
	rm -rf --one-file-system "$out/_package"
	return $status
}

# download_debian FILE writes a minimal system of this Debian's release, with systemd.
download_debian() {
	local uri
	uri=$(print_debian_uri) || return
	mmdebstrap --variant=minbase --include=systemd \
		--aptopt='APT::Install-Recommends "false"' --aptopt='APT::Sandbox::User "root"' \
		"$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$1.part.tar" "$uri" || return
	mv "$1.part.tar" "$1"
}
