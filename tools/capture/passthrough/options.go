package passthrough

import (
	"encoding/json"
	"fmt"
	"strings"
)

// option is the value of one option of QEMU: a name, and properties.
type option struct {
	name       string
	properties map[string]string
}

// options are the values of all options, by the option's name without dashes.
type options struct{ values map[string][]string }

// parse takes the argument after an option as its value, unless it begins with a dash.
func parse(arguments []string) *options {
	o := &options{map[string][]string{}}
	for i := 0; i < len(arguments); i++ {
		name, isOption := strings.CutPrefix(arguments[i], "-")
		if !isOption {
			continue
		}
		name, value := strings.TrimPrefix(name, "-"), ""
		if i+1 < len(arguments) && !strings.HasPrefix(arguments[i+1], "-") {
			i++
			value = arguments[i]
		}
		o.values[name] = append(o.values[name], value)
	}
	return o
}

func (o *options) list(name string) (list []option) {
	for _, value := range o.values[name] {
		list = append(list, parseOption(value))
	}
	return list
}

// last returns the last value of an option, or "".
func (o *options) last(name string) string {
	if list := o.values[name]; len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

func (o *options) devices(drivers ...string) (list []option) {
	for _, d := range o.list("device") {
		for _, driver := range drivers {
			if d.name == driver {
				list = append(list, d)
			}
		}
	}
	return list
}

// machine returns the properties of all -machine options.
func (o *options) machine() option {
	all := option{properties: map[string]string{}}
	for _, m := range append(o.list("M"), o.list("machine")...) {
		for k, v := range m.properties {
			all.properties[k] = v
		}
	}
	return all
}

// parseOption parses NAME,KEY=VALUE,... with doubled commas in values, or JSON.
func parseOption(text string) option {
	o := option{properties: map[string]string{}}
	if strings.HasPrefix(text, "{") {
		var values map[string]any
		_ = json.Unmarshal([]byte(text), &values)
		for k, v := range values {
			o.properties[k] = fmt.Sprint(v)
		}
		o.name = o.text("driver", o.text("qom-type", ""))
		return o
	}
	for i, part := range strings.Split(strings.ReplaceAll(text, ",,", "\x00"), ",") {
		key, value, hasValue := strings.Cut(strings.ReplaceAll(part, "\x00", ","), "=")
		switch {
		case i == 0 && !hasValue:
			o.name = key
		case hasValue:
			o.properties[key] = value
		default:
			o.properties[key] = "on"
		}
	}
	if d, ok := o.properties["driver"]; ok && o.name == "" {
		o.name = d
	}
	return o
}

func (o option) text(key, otherwise string) string {
	if v, ok := o.properties[key]; ok {
		return v
	}
	return otherwise
}

func (o option) isOn(key string) bool {
	switch o.text(key, "") {
	case "on", "true", "yes", "y", "1":
		return true
	}
	return false
}

func (o option) isOff(key string) bool {
	switch o.text(key, "on") {
	case "off", "false", "no", "n", "0":
		return true
	}
	return false
}
