// Package listing implements the text language of Light Metal images: Parse reads a listing, Print
// writes one, and Parse(Print(x)) equals x. LANGUAGE.md is the reference.
package listing
