package lmb

import (
	"fmt"
	"strings"

	"lightmetal/fbs/gen"
)

// DTypes are the element types by number as people write them; the first is none.
var DTypes = func() []string {
	list := make([]string, len(gen.EnumNamesDType))
	for d := gen.DTypeInvalid + 1; int(d) < len(list); d++ {
		list[d] = strings.ToLower(d.String())
	}
	return list
}()

// SizeText is a number of bytes for people: in the largest unit that divides it.
func SizeText(n uint64) string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if shift := 40 - 10*i; n != 0 && n>>shift<<shift == n {
			return fmt.Sprintf("%d %s", n>>shift, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
