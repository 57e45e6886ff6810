package runtime_test

import (
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
)

// slowPort makes accesses that take what they are charged, 1 us.
type slowPort struct {
	device *mock.Device
	hal.Port
}

func (p slowPort) Load(offset uint64, width uint8) (uint64, hal.Code) {
	before := p.device.Now()
	value, code := p.Port.Load(offset, width)
	p.device.Sleep(before + 1000 - p.device.Now())
	return value, code
}

func (p slowPort) Store(offset uint64, width uint8, value uint64) hal.Code {
	before := p.device.Now()
	code := p.Port.Store(offset, width, value)
	p.device.Sleep(before + 1000 - p.device.Now())
	return code
}

// slowDevice is a mock whose accesses and queries take what they are charged.
type slowDevice struct{ *mock.Device }

func (d slowDevice) Map(w fbs.Window) (hal.Aperture, error) {
	a, err := d.Device.Map(w)
	return hal.NewAperture(slowPort{d.Device, a.Port}, a.Size, a.TLBWindow), err
}

func (d slowDevice) Alive() bool {
	d.Device.Sleep(10_000)
	return d.Device.Alive()
}

func (d slowDevice) Diagnose() hal.Code {
	d.Device.Sleep(10_000)
	return d.Device.Diagnose()
}

// limitBodies returns a listing of commands of about 9 ms for each kind, width and mode.
func limitBodies() map[string]string {
	bodies := map[string]string{
		"fence":  strings.Repeat("  fence\n  write.4 m+0x0 0x1\n", 9000),
		"calls":  strings.Repeat("  call callee\n", 900) + "callee:\n  copy.8 m+0x0 <- hex:\n",
		"ignore": strings.Repeat("  expect.4 m+0x0 == 0x77 else ignore\n", 800),
	}
	delete(bodies, "calls")
	for _, width := range []int{1, 2, 4, 8} {
		for name, text := range map[string]string{
			"write":       "  write.%[1]d m+0x0 0x1\n",
			"modify":      "  modify.%[1]d m+0x0 set 0x1\n",
			"expect":      "  expect.%[1]d m+0x0 != 0x77\n",
			"copy in":     "  copy.%[1]d m+0x0 <- i[0:%[2]d]\n",
			"copy out":    "  copy.%[1]d o[0:%[2]d] <- m+0x0\n",
			"fixed in":    "  copy.%[1]d m+0x0 fixed <- i[0:%[2]d]\n",
			"fixed out":   "  copy.%[1]d o[0:%[2]d] <- m+0x0 fixed\n",
			"bulk in":     "  copy.bulk.%[1]d m+0x0 <- i[0:%[2]d]\n",
			"bulk out":    "  copy.bulk.%[1]d o[0:%[2]d] <- m+0x0\n",
			"fill":        "  fill.%[1]d m+0x0 size %[2]d 0x0\n",
			"fixed fill":  "  fill.%[1]d m+0x0 size %[2]d 0x0 fixed\n",
			"compare":     "  compare.%[1]d m+0x0 == i[0:%[2]d]\n",
			"short copy":  "  copy.%[1]d m+0x0 <- i[0:%[3]d]\n",
			"short loads": "  copy.%[1]d o[0:%[3]d] <- m+0x0\n",
		} {
			one := fmt.Sprintf(text, width, 9000*width, 3*width)
			count := 1
			if !strings.Contains(text, "%[2]d") {
				count = 9000
			}
			bodies[fmt.Sprint(name, " ", width)] = strings.Repeat(one, count)
		}
	}
	return bodies
}

var _ = runtime.AnyTLBWindow
var _ = boards.Ivshmem
