SUMMARY = "Replay runtime for PCIe accelerators, the released programs"
DESCRIPTION = "lmrun replays a Light Metal binary on a PCIe accelerator: one static program, without libraries."
LICENSE = "CLOSED"

# The folder or server with the packages of a release. Those of a server need a checksum:
# SRC_URI[sha256sum] in a .bbappend.
LIGHTMETAL_RELEASE ?= "file://${@os.path.normpath(d.getVar('THISDIR') + '/../../../../../..')}/build"
LIGHTMETAL_ARCH:aarch64 = "arm64"
LIGHTMETAL_ARCH:x86-64 = "amd64"
SRC_URI = "${LIGHTMETAL_RELEASE}/lightmetal_${PV}_${LIGHTMETAL_ARCH}.deb;subdir=${BP}"

inherit systemd

# Images and a configuration, from the files of a .bbappend.
LIGHTMETAL_IMAGES ?= ""
LIGHTMETAL_CONFIG ?= ""

INHIBIT_DEFAULT_DEPS = "1"
do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
	for program in lminit lmrun lmrun-signed lightmetal-place; do
		install -D -m 0755 ${S}/usr/bin/$program ${D}${bindir}/$program
	done
	install -D -m 0644 ${S}/usr/lib/systemd/system/lightmetal.service ${D}${systemd_system_unitdir}/lightmetal.service
	for image in ${LIGHTMETAL_IMAGES}; do
		install -D -m 0644 $image ${D}${datadir}/lightmetal/$(basename $image)
	done
	if [ -n "${LIGHTMETAL_CONFIG}" ]; then
		install -D -m 0644 ${LIGHTMETAL_CONFIG} ${D}${sysconfdir}/lightmetal/lmrun.conf
	fi
}

# Go's linker has stripped the programs.
INSANE_SKIP:${PN} += "already-stripped ldflags"
SYSTEMD_SERVICE:${PN} = "lightmetal.service"
FILES:${PN} += "${datadir}/lightmetal"
CONFFILES:${PN} = "${sysconfdir}/lightmetal/lmrun.conf"
RPROVIDES:${PN} = "lightmetal"
RCONFLICTS:${PN} = "lightmetal"
COMPATIBLE_HOST = "(aarch64|x86_64).*-linux"
