package vfiouser

import (
	"testing"
	"time"

	"lightmetal/boards"
)

// TestWedgeEndsOnlyAtItsEvent lets a device hang from its third access on, and makes all events
// that a client can cause over one connection.
func TestWedgeEndsOnlyAtItsEvent(t *testing.T) {
	events := []struct {
		name string
		do   func(*client)
		ends map[string]bool
	}{
		{"nothing", func(*client) {}, nil},
		{"memory decoding off and on", func(c *client) {
			c.store(configRegion, regCommand, 2, 0)
			c.store(configRegion, regCommand, 2, 2)
		}, nil},
		{"an address for BAR 0", func(c *client) {
			c.store(configRegion, regBar, 4, 0x1000_0000)
		}, nil},
		{"function level reset", func(c *client) {
			c.store(configRegion, expressControl, 2, controlReset)
		}, map[string]bool{functionReset: true}},
		{"device reset", func(c *client) { c.sendOK(cmdDeviceReset, nil) },
			map[string]bool{functionReset: true, busReset: true}},
		{"BAR 0 is sized", func(c *client) {
			c.store(configRegion, regBar, 4, 0xffffffff)
		}, map[string]bool{enumeration: true}},
	}
	const id, hanging = 0x010000ed, 0xffffffff
	for _, until := range WedgeEnds() {
		for _, event := range events {
			t.Run(until+" "+event.name, func(t *testing.T) {
				options := Options{Wedge: Wedge{Until: until, Access: 3}}
				c, f := startServerWithOptions(t, mockOpener(&boards.Edu), options)
				c.store(0, 4, 4, 0)
				for i, want := range []uint64{id, hanging, hanging} {
					if got := c.load(0, 0, 4); got != want {
						t.Errorf("access %d returns %#x, want %#x", i+2, got, want)
					}
				}
				c.store(0, 4, 4, 5)
				event.do(c)
				want := []uint64{hanging, hanging, hanging}
				if event.ends[until] {
					want = []uint64{id, id, hanging}
				}
				for i, want := range want {
					if got := c.load(0, 0, 4); got != want {
						t.Errorf("access %d after it returns %#x, want %#x", i+1, got, want)
					}
				}
				if got := c.load(configRegion, 0, 4); got != 0x11e81234 || f.Refused() != 0 {
					t.Errorf("configuration space %#x, %d accesses refused", got, f.Refused())
				}
			})
		}
	}
}

// TestWedgeUntilPowerEndsWithTheNextClient connects again after the first client has left, and then
// lets the time pass within which another client could come.
func TestWedgeUntilPowerEndsWithTheNextClient(t *testing.T) {
	options := Options{Wedge: Wedge{Until: newClient, Access: 3, Reconnect: 2 * time.Second}}
	c, _ := startServerWithOptions(t, mockOpener(&boards.Edu), options)
	address := c.conn.RemoteAddr().String()
	for range 2 {
		for i, want := range []uint64{0xffffffff, 0x010000ed, 0xffffffff, 0xffffffff} {
			if got := c.load(0, uint64(4-min(i, 1)*4), 4); got != want {
				t.Errorf("access %d returns %#x, want %#x", i+1, got, want)
			}
		}
		next := dialServer(t, address) // waits until the server has ended the first connection
		c.conn.Close()
		c.conn, c.id = next, 0
	}
	if err := c.disconnect(); err != nil {
		t.Error(err)
	}
}

// TestChipIsResetLikeByItsDriver makes the stores with which tt-kmd resets a chip: a message to the
// ARC of a Wormhole, or a store to configuration space of a Blackhole. The other chip must ignore
// the store to configuration space.
func TestChipIsResetLikeByItsDriver(t *testing.T) {
	const marker, arc = 0x40, 0x1f30000 // a bit of the command register; the ARC's registers
	message := func(c *client) {
		c.store(4, arc+0x74, 4, 0xaa56)
		c.store(4, arc+0x100, 4, 1<<16)
	}
	timer := func(c *client) { c.store(configRegion, regTimer, 4, 0x11) }
	for _, test := range []struct {
		name    string
		board   *boards.Board
		do      func(*client)
		isReset bool
	}{
		{"message", &boards.Wormhole, message, true},
		{"another message", &boards.Wormhole, func(c *client) {
			c.store(4, arc+0x74, 4, 0xaa11)
			c.store(4, arc+0x100, 4, 1<<16)
		}, false},
		{"timer", &boards.Wormhole, timer, false},
		{"timer", &boards.Blackhole, timer, true},
		{"timer without the bit", &boards.Blackhole, func(c *client) {
			c.store(configRegion, regTimer, 4, 1)
		}, false},
	} {
		t.Run(test.board.Name+" "+test.name, func(t *testing.T) {
			c, f := startServerWithOptions(t, mockOpener(test.board), Options{})
			c.store(configRegion, regCommand, 2, marker)
			test.do(c)
			if got := c.load(configRegion, regCommand, 2) == 0; got != test.isReset ||
				f.Refused() != 0 {
				t.Errorf("reset %v, want %v; %d accesses refused", got, test.isReset, f.Refused())
			}
		})
	}
}
