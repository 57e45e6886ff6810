package passthrough

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// externalPort is the property by which Linux knows a port for devices that it does not trust.
const externalPort = "ExternalFacingPort"

// AML, from section 20 of the ACPI specification.
const (
	amlZero, amlOne                  = 0x00, 0x01
	amlName, amlByte, amlString      = 0x08, 0x0a, 0x0d
	amlScope, amlBuffer, amlPackage  = 0x10, 0x11, 0x12
	amlRoot, amlMultiName, amlLength = '\\', 0x2f, 0x40 // amlLength: a length of two bytes
)

// propertiesUUID is efcc06cc-73ac-4bc3-bff0-76143807c389, of properties of PCI ports.
var propertiesUUID = []byte{0xcc, 0x06, 0xcc, 0xef, 0xac, 0x73, 0xc3, 0x4b, 0xbf, 0xf0, 0x76, 0x14,
	0x38, 0x07, 0xc3, 0x89}

// PortTable returns an ACPI table (SSDT) that makes the port at addr=1 of QEMU's machine q35 one
// for external devices. For devices behind it, Linux copies what is less than a page.
func PortTable() []byte {
	uuid := amlBlock(amlBuffer, append([]byte{amlByte, byte(len(propertiesUUID))},
		propertiesUUID...))
	properties := amlElements(amlElements(amlText(externalPort), []byte{amlOne}),
		amlElements(amlText("UID"), []byte{amlZero}))
	scope := slices.Concat([]byte{amlRoot, amlMultiName, 3}, []byte("_SB_PCI0S08_"),
		[]byte{amlName}, []byte("_DSD"), amlElements(uuid, properties))
	body := amlBlock(amlScope, scope)
	const header = 36
	var t bytes.Buffer
	t.WriteString("SSDT")
	_ = binary.Write(&t, binary.LittleEndian, uint32(header+len(body)))
	t.Write([]byte{2, 0}) // revision, and later the checksum
	t.WriteString("LMREC EXTPORT ")
	t.Write([]byte{1, 0, 0, 0})
	t.WriteString("LM  ")
	t.Write([]byte{1, 0, 0, 0})
	t.Write(body)
	table, sum := t.Bytes(), byte(0)
	for _, b := range table {
		sum += b
	}
	table[9] = -sum
	return table
}

// amlBlock returns an object with its length, which counts the bytes of the length itself.
func amlBlock(opcode byte, content []byte) []byte {
	const oneByteMax = 0x3f
	if n := len(content) + 1; n <= oneByteMax {
		return append([]byte{opcode, byte(n)}, content...)
	}
	n := len(content) + 2
	return append([]byte{opcode, amlLength | byte(n&0xf), byte(n >> 4)}, content...)
}

func amlElements(list ...[]byte) []byte {
	return amlBlock(amlPackage, append([]byte{byte(len(list))}, slices.Concat(list...)...))
}

func amlText(text string) []byte { return append(append([]byte{amlString}, text...), 0) }
