package recorder

func setCopiesByBytes() {}
