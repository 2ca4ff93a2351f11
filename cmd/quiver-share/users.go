package main

import (
	"fmt"
	"strconv"
	"strings"
)

// userList is the value of a flag that lists users by number.
type userList []uint32

func (l *userList) Type() string { return "uids" }

func (l *userList) String() string {
	words := make([]string, len(*l))
	for i, uid := range *l {
		words[i] = strconv.FormatUint(uint64(uid), 10)
	}
	return strings.Join(words, ",")
}

func (l *userList) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		uid, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return fmt.Errorf("%q: expected numbers of users, from 0 to 4294967295", word)
		}
		*l = append(*l, uint32(uid))
	}
	return nil
}
