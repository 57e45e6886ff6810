SUMMARY = "Replay runtime for PCIe accelerators"
DESCRIPTION = "lmrun replays a Light Metal binary on a PCIe accelerator: one static program, without libraries."
LICENSE = "CLOSED"

# Where the sources are: a checkout on this machine, or a repository of yours.
LIGHTMETAL_SOURCE ?= "${@os.path.normpath(d.getVar('THISDIR') + '/../../../../../..')}"
LIGHTMETAL_SRC_URI ?= "git://${LIGHTMETAL_SOURCE};protocol=file;branch=main"
SRC_URI = "${LIGHTMETAL_SRC_URI};destsuffix=${GO_SRCURI_DESTSUFFIX}"
# A commit of the branch main. A .bbappend of yours names that of the release that you have tested.
SRCREV ?= "2b996276af5895acdb4364a554f65305671f9c88"
PV = "0.1+git"

GO_IMPORT = "lightmetal"
GO_INSTALL = "${GO_IMPORT}/tools/lmrun ${GO_IMPORT}/tools/lminit"
inherit go-mod systemd

# The series scarthgap has Go 1.22.
python () {
    if bb.utils.vercmp_string((d.getVar('GOVERSION') or '1.26').rstrip('%'), '1.26') < 0:
        raise bb.parse.SkipRecipe('lightmetal needs Go 1.26; install lightmetal-bin instead')
}

# The two modules that lmrun links are fetched by Go and held by go.sum.
do_compile[network] = "1"

# One static program: neither a C compiler nor a loader.
CGO_ENABLED = "0"
GO_LDFLAGS = "-ldflags='-s -w'"
GOBUILDFLAGS:remove = "-buildmode=pie"
GOBUILDFLAGS:append = " -buildvcs=false${@bb.utils.contains('PACKAGECONFIG', 'signed', ' -tags=signed', '', d)}"
INSANE_SKIP:${PN} += "already-stripped textrel"

PACKAGECONFIG ??= ""
# lmrun -key: images that are not signed are refused
PACKAGECONFIG[signed] = ""

# Images and a configuration, from the files of a .bbappend.
LIGHTMETAL_IMAGES ?= ""
LIGHTMETAL_CONFIG ?= ""

do_install() {
	install -D -m 0755 ${B}/${GO_BUILD_BINDIR}/lmrun ${D}${bindir}/lmrun
	install -D -m 0755 ${B}/${GO_BUILD_BINDIR}/lminit ${D}${bindir}/lminit
	install -D -m 0644 ${S}/src/${GO_IMPORT}/testdata/recipes/systemd/lightmetal.service ${D}${systemd_system_unitdir}/lightmetal.service
	install -D -m 0755 ${S}/src/${GO_IMPORT}/testdata/recipes/update/lightmetal-place ${D}${bindir}/lightmetal-place
	for image in ${LIGHTMETAL_IMAGES}; do
		install -D -m 0644 $image ${D}${datadir}/lightmetal/$(basename $image)
	done
	if [ -n "${LIGHTMETAL_CONFIG}" ]; then
		install -D -m 0644 ${LIGHTMETAL_CONFIG} ${D}${sysconfdir}/lightmetal/lmrun.conf
	fi
}

SYSTEMD_SERVICE:${PN} = "lightmetal.service"
FILES:${PN} += "${datadir}/lightmetal"
CONFFILES:${PN} = "${sysconfdir}/lightmetal/lmrun.conf"
COMPATIBLE_HOST = "(aarch64|x86_64).*-linux"
