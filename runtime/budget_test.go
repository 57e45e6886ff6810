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
	"lightmetal/tools/check/effort"
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

// longRuns has the commands of runs that are charged more than 8 ms, for every opcode, width and
// mode.
func longRuns() map[string]string {
	runs := map[string]string{
		"fence":  strings.Repeat("  fence\n  write.4 m+0x0 0x1\n", 9000),
		"ignore": strings.Repeat("  expect.4 m+0x0 == 0x77 else ignore\n", 900),
		"delay":  strings.Repeat("  delay 300us\n", 40),
		"poll":   strings.Repeat("  poll.4 m+0x0 == 0x77 within 300us else ignore\n", 40),
		"call": strings.Repeat("  call callee\n", 40) +
			"callee:\n  fill.1 m+0x0 <- 0x0 size 700\n",
	}
	for _, width := range []int{4, 1, 2, 8}[:effort.Cases(1, 4, 4)] {
		for name, text := range map[string]string{
			"write":          "  write.W m+0x0 0x1\n",
			"modify":         "  write.W m+0x0 0x1 mask 0x1\n",
			"expect":         "  expect.W m+0x0 == 0x0\n",
			"expect unequal": "  expect.W m+0x0 != 0x77\n",
			"short copy in":  "  copy.W m+0x0 <- i[0:SHORT]\n",
			"short copy out": "  copy.W o[0:SHORT] <- m+0x0\n",
			"copy in":        "  copy.W m+0x0 <- i[0:LONG]\n",
			"copy out":       "  copy.W o[0:LONG] <- m+0x0\n",
			"fixed in":       "  copy.W m+0x0 <- i[0:LONG] fifo\n",
			"fixed out":      "  copy.W o[0:LONG] <- m+0x0 fifo\n",
			"bulk in":        "  copy.W m+0x3 <- i[5:LONG] bulk\n",
			"bulk out":       "  copy.W o[5:LONG] <- m+0x3 bulk\n",
			"fill":           "  fill.W m+0x0 <- 0x0 size LONG\n",
			"fixed fill":     "  fill.W m+0x0 <- 0x0 size LONG fifo\n",
			"compare":        "  compare.W m+0x0 uintBITS == i[0:LONG]\n",
		} {
			count := 1
			if !strings.Contains(text, "LONG") {
				count = 9000
			}
			text = strings.NewReplacer("W", fmt.Sprint(width), "LONG", fmt.Sprint(9000*width),
				"SHORT", fmt.Sprint(3*width), "BITS", fmt.Sprint(8*width)).Replace(text)
			runs[fmt.Sprint(name, " ", width)] = strings.Repeat(text, count)
		}
	}
	return runs
}

// TestLimitIsKeptWithinOneBudgetForEveryCommand: each access takes what it is charged.
func TestLimitIsKeptWithinOneBudgetForEveryCommand(t *testing.T) {
	const limit, budget, access = 2_000_000, 1_000_000, 1000
	for name, body := range longRuns() {
		t.Run(name, func(t *testing.T) {
			device := slowDevice{mock.New(&boards.Ivshmem)}
			r, err := runtime.Load(view(t, ivshmemHead+"tensor i input uint8[72000]\n"+
				"tensor o output uint8[72000]\nmain:\n"+body+
				"other:\n  copy.8 o[:] <- m+0x0\n  copy.8 m+0x0 <- i[:]\n"),
				runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			r.Input(0)
			r.SetLimit(limit)
			before := device.Now()
			result := r.Run(0)
			if took := device.Now() - before; result.Code != hal.FrameLate || took <= limit ||
				took > limit+budget+access {
				t.Errorf("%s: run ends with %v after %d ns, want %v within %d ns of %d", name,
					result.Code, took, hal.FrameLate, budget+access, limit)
			}
		})
	}
}
