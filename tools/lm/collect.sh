#!/bin/sh
# Copies what lm check-board reads of a machine: sh collect.sh FOLDER [ROOT]
# Then, where lm is: lm check-board --root FOLDER
out=${1:?name a folder to copy to}
mkdir -p "$out" && out=$(cd "$out" && pwd) && cd "${2:-/}" || exit 1
copy() {
	for path; do
		[ -f "$path" ] && mkdir -p "$out/${path%/*}" && cat "$path" > "$out/$path" 2>/dev/null
	done
}
link() {
	for path; do
		[ -L "$path" ] && mkdir -p "$out/${path%/*}" && ln -sfn "$(readlink "$path")" "$out/$path"
	done
}
mark() {
	for path; do
		[ -e "$path" ] && mkdir -p "$out/${path%/*}" && : > "$out/$path"
	done
}
mkdir -p "$out/proc/sys/kernel" && uname -m > "$out/proc/sys/kernel/arch"
copy proc/sys/kernel/arch proc/sys/kernel/osrelease proc/sys/kernel/version
copy proc/config.gz "boot/config-$(cat proc/sys/kernel/osrelease)"
copy proc/device-tree/compatible proc/device-tree/model proc/meminfo
copy proc/self/mountinfo proc/self/status proc/self/limits proc/self/smaps
copy proc/sys/kernel/seccomp/actions_avail
mark proc/device-tree/pci*/iommu-map proc/device-tree/*/pci*/iommu-map \
	proc/device-tree/*/*/pci*/iommu-map
mark proc/self/pagemap dev/watchdog0 dev/vfio/noiommu-*
copy sys/class/dmi/id/sys_vendor sys/class/dmi/id/product_name sys/class/watchdog/watchdog0/identity
copy sys/kernel/iommu_groups/*/type
copy sys/kernel/security/lockdown sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
mark sys/bus/pci/drivers/vfio-pci
for device in sys/bus/pci/devices/*; do
	for file in vendor device config resource current_link_speed current_link_width \
		max_link_speed max_link_width; do
		copy "$device/$file"
	done
	mark "$device"/resource?_wc "$device"/resource?_resize
	link "$device/driver" "$device/iommu_group" "$device/physfn"
done
exit 0
