package main

import "bytes"

// A member is a member of a JSON object: its name, and its value as raw JSON.
type member struct {
	name  string
	value []byte
}

// scanMembers returns the members of an object in their order. The object must be valid JSON.
func scanMembers(object []byte) ([]member, error) {
	var members []member
	rest := trimLeft(object[1:])
	for rest[0] != '}' {
		var rawName, value []byte
		rawName, rest = cutValue(rest)
		name, err := text(rawName)
		if err != nil {
			return nil, err
		}
		value, rest = cutValue(trimLeft(rest[1:])) // after the colon
		members = append(members, member{name, value})
		if rest[0] == ',' {
			rest = trimLeft(rest[1:])
		}
	}
	return members, nil
}

// cutValue splits off the value at the start of valid JSON, and skips the white space after it.
func cutValue(text []byte) (value, rest []byte) {
	end := valueEnd(text)
	return text[:end], trimLeft(text[end:])
}

func valueEnd(text []byte) int {
	switch text[0] {
	case '"':
		return stringEnd(text)
	case '{', '[':
		return nestEnd(text)
	default:
		return bytes.IndexAny(text, " \t\r\n,]}")
	}
}

func stringEnd(text []byte) int {
	end := 1
	for text[end] != '"' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	return end + 1
}

// nestEnd returns the position after the bracket that closes the first one. Counting is enough, because
// brackets are balanced in valid JSON.
func nestEnd(text []byte) int {
	depth, end := 0, 0
	for {
		switch text[end] {
		case '"':
			end += stringEnd(text[end:])
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		end++
		if depth == 0 {
			return end
		}
	}
}

func trimLeft(text []byte) []byte {
	return bytes.TrimLeft(text, " \t\r\n")
}
