package passthrough

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// good is a command line for which Check has no finding.
const good = "-M q35,kernel-irqchip=split -accel kvm -m 256 -bios /usr/share/qboot.rom " +
	"-device virtio-iommu-pci,boot-bypass=off -acpitable file=port.aml " +
	"-device pcie-root-port,id=rp0,addr=1,chassis=1,slot=1 " +
	"-device vfio-pci,host=0000:01:00.0,bus=rp0,x-no-mmap=on,rombar=0,x-no-kvm-msix=on " +
	"-chardev file,id=m,path=/tmp/marks -device virtserialport,name=lm,chardev=m " +
	"-append console=ttyS0,swiotlb=2048,force"

func checkText(line string) *Report {
	return Check(strings.Fields(line), true, func(path string) ([]byte, error) {
		if path != "port.aml" {
			return nil, errors.New("no such file")
		}
		return PortTable(), nil
	})
}

func TestCommandLineWithoutFindings(t *testing.T) {
	r := checkText(good)
	want := []string{"x-no-mmap=on of 0000:01:00.0", "rombar=0 of 0000:01:00.0",
		"x-no-kvm-msix=on of 0000:01:00.0", "virtio-iommu with boot-bypass=off",
		"an external-facing port", "bounce buffers (swiotlb)", "firmware qboot.rom",
		"marks of the guest in /tmp/marks"}
	if len(r.Findings) != 0 || !slices.Equal(r.Good, want) || r.Marks != "/tmp/marks" {
		t.Errorf("findings %v, good %q, marks %q", r.Findings, r.Good, r.Marks)
	}
}

// TestEachFinding changes the good command line in one place.
func TestEachFinding(t *testing.T) {
	const bypass = "virtio-iommu-pci,boot-bypass=off"
	for _, c := range []struct {
		old, changed string
		level        Level
		want         string
	}{
		{"x-no-mmap=on,", "", Error, "lm sees no access; add x-no-mmap=on"},
		{"x-no-mmap=on,", "x-no-mmap=off,", Error, "lm sees no access"},
		{",rombar=0", "", Warning, "run the card's ROM"},
		{",x-no-kvm-msix=on", "", Hint, "no IRQ lines"},
		{"-device " + bypass, "", Error, "without a virtual IOMMU"},
		{bypass, "virtio-iommu-pci", Error, "until the guest's driver is loaded"},
		{bypass, "intel-iommu,intremap=on,caching-mode=on", Error, "until the guest enables it"},
		{bypass, "amd-iommu", Error, "does not tell VFIO"},
		{"-M q35,", "-M q35,default_bus_bypass_iommu=on,", Error, "leave it out"},
		{"-acpitable file=port.aml", "", Warning, "--port-table FILE"},
		{"file=port.aml", "file=other.aml", Warning, "--port-table FILE"},
		{"addr=1,", "addr=2,", Warning, "no root port has addr=1"},
		{"bus=rp0,", "", Warning, "add bus=rp0 to the vfio-pci device"},
		{",swiotlb=2048,force", "", Warning, "has no bounce buffers"},
		{"-m 256", "-m 256 -mem-path /dev/hugepages", Warning, "in huge pages"},
		{"-m 256", "-object memory-backend-memfd,id=r,size=1G,hugetlb=on", Warning, "huge pages"},
		{"-bios /usr/share/qboot.rom", "", Warning, "driver of its own"},
		{"-bios /usr/share/qboot.rom", "-bios OVMF.fd", Warning, "driver of its own"},
		{"-chardev file,id=m,path=/tmp/marks", "-chardev pty,id=m", Error, "not see the marks"},
		{"host=0000:01:00.0,bus=rp0,x-no-mmap=on", "sysfsdev=/s,bus=rp0", Error, "/s: QEMU"},
	} {
		if strings.Count(good, c.old) != 1 {
			t.Fatalf("%q is not in the command line once", c.old)
		}
		r := checkText(strings.Replace(good, c.old, c.changed, 1))
		if len(r.Findings) != 1 || r.Findings[0].Level != c.level ||
			!strings.Contains(r.Findings[0].String(), c.want) ||
			(r.Errors() > 0) != (c.level == Error) {
			t.Errorf("%q for %q: findings %v, want one %s with %q", c.changed, c.old, r.Findings,
				c.level, c.want)
		}
	}
}

func TestCardThatIsAddedLater(t *testing.T) {
	r := checkText("-device intel-iommu -device {\"driver\":\"pcie-root-port\",\"addr\":1," +
		"\"id\":\"rp0\"} -acpitable file=port.aml")
	if len(r.Findings) != 1 || r.Findings[0].Level != Warning ||
		!strings.Contains(r.Findings[0].Reason, "device_add") {
		t.Errorf("findings %v, want a warning that device_add is not checked", r.Findings)
	}
}

func TestWithoutMemoryNoIOMMUIsNeeded(t *testing.T) {
	if r := Check([]string{"-device", "vfio-pci,host=1,x-no-mmap=on"}, false, nil); r.Errors() > 0 {
		t.Errorf("findings %v, want no error", r.Findings)
	}
}

func TestQEMUIsRecognised(t *testing.T) {
	for name, want := range map[string]bool{"/usr/bin/qemu-system-x86_64": true, "qemu-kvm": true,
		"kvm": true, "qemu-img": false, "python3": false} {
		if IsQEMU(name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}
