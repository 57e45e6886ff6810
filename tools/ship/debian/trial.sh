#!/usr/bin/env bash
# Installs the packages in a bare Debian, as the page about recipes says, and runs the service there
# under systemd, with a signed image. The device is a directory in the place of /sys/bus/pci, whose
# BAR is a file. Then it removes the packages: inside.sh. `./build.sh test package` runs it.
#
#   trial.sh DEBIAN.tar PACKAGES DIR
#
# DEBIAN.tar is a minimal Debian with systemd. Exit status 97: systemd cannot be run here; the
# reason is printed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR
source "$here/../../../testdata/recipes/systemd/namespace.sh"
address=0000:01:00.0
listing="lightmetal 1
device edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
main:
  write.4 r+0x8 12
  delay 1ms
  expect.4 r+0x8 == 12
safe:
  write.4 r+0x64 0xffffffff"

# make_bus BUS makes the files of a PCI function with a BAR of 1 MiB.
make_bus() {
	local function=$1/devices/$address line
	mkdir -p "$function"
	echo pci:v00001234d000011E8sv00001AF4sd00001100bc00sc00i00 >"$function/modalias"
	printf '0x%016x 0x%016x 0x%016x\n' 0xfe000000 0xfe0fffff 0x40200 >"$function/resource"
	for line in 1 2 3 4 5; do printf '0x%016x 0x%016x 0x%016x\n' 0 0 0; done >>"$function/resource"
	head -c 4096 /dev/zero >"$function/config"
	# Vendor, device, memory decoding, and the address of BAR 0.
	printf '\x34\x12\xe8\x11\x02' | dd of="$function/config" conv=notrunc status=none
	printf '\xfe' | dd of="$function/config" bs=1 seek=19 conv=notrunc status=none
	: >"$function/enable"
	truncate -s 1M "$function/resource0"
}

# install_all ROOT PACKAGES installs the packages in a root, an image, a key and a configuration.
install_all() {
	local root=$1
	mkdir "$root/trial" "$root/result"
	cp "$2"/lightmetal*.deb "$root/trial"
	echo "$listing" >"$root/trial/model.lms"
	printf '\x0c\0\0\0' >"$root/trial/twelve"
	cp "$here/inside.sh" "$root/trial"
	chroot "$root" /bin/bash -euxo pipefail <<-'TEXT'
		dpkg -i /trial/*.deb
		[[ ! -e /etc/systemd/system/multi-user.target.wants/lightmetal.service ]]
		cd /trial
		lm asm model.lms -o unsigned.lmb
		lm sign --new-key release.pem
		for version in 1 2; do
			lm sign --key release.pem --version $version -o $version.lmb unsigned.lmb
		done
		mkdir -p /etc/lightmetal /var/lib/lightmetal
		cp release.pem.pub /etc/lightmetal
		lightmetal-place 1.lmb /var/lib/lightmetal/model.lmb /etc/lightmetal/release.pem.pub
		cp /usr/share/doc/lightmetal/examples/lmrun.conf /etc/lightmetal
		printf '%s\n' [Unit] After=basic.target [Service] Type=oneshot \
			StandardOutput=append:/result/log StandardError=append:/result/log \
			'ExecStart=/bin/bash /trial/inside.sh' \
			'ExecStopPost=/bin/sh -c "echo $SERVICE_RESULT >/result/result"' \
			'ExecStopPost=systemctl poweroff -ff' \
			>/etc/systemd/system/trial.service
	TEXT
}

if [[ $1 == boot ]]; then
	dir=$2
	mount --make-rprivate /
	mount --bind "$dir/root" "$dir/root"
	mount_root "$dir/root" "$dir/bus" "$dir/result"
	exec_systemd "$dir/root" trial.service
fi

tar=$1 packages=$2 dir=$3
rm -rf "$dir"
mkdir -p "$dir/root" "$dir/bus" "$dir/result"
prepare_group
tar -x -C "$dir/root" -f "$tar" --exclude='./dev/*'
make_bus "$dir/bus"
install_all "$dir/root" "$packages" >"$dir/install.log" 2>&1 || { cat "$dir/install.log"; exit 1; }
boot_in_group 300 "${BASH_SOURCE[0]}" boot "$dir" || true
[[ $(cat "$dir/result/result" 2>/dev/null) == success ]] || {
	cat "$dir/result/boot" "$dir/result/log"
	exit 1
}
echo "the service ran a signed image; the packages are removed again"
