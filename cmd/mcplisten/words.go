// Splitting a command line into words, as a shell does with quotes.

package main

import (
	"errors"
	"strings"
)

// splitCommand splits a command at blanks. Single and double quotes keep blanks
// together, and a backslash outside of single quotes takes the next character as
// it is. Nothing is expanded.
func splitCommand(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped := false, false
	var quote rune
	for _, c := range command {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case strings.ContainsRune(" \t\n", c):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("the command ends within a quote")
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty")
	}
	return words, nil
}
