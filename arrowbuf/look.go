package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// ToHost copies the elements that the array shows to the host, and returns
// arrow-go's own array of them. The caller owns one reference to it.
func (a *Array) ToHost() (arrow.Array, error) { return CopyArrayTo(a, CPU()) }

// String prints the elements as arrow-go prints them. It copies the array.
func (a *Array) String() string {
	host, err := a.ToHost()
	if err != nil {
		panic(a.failure("the elements", err))
	}
	defer host.Release()
	return host.String()
}

// MarshalJSON writes the elements as arrow-go writes them. It copies the array.
func (a *Array) MarshalJSON() ([]byte, error) {
	host, err := a.ToHost()
	if err != nil {
		return nil, a.failure("the elements", err)
	}
	defer host.Release()
	return host.MarshalJSON()
}

// ValueStr is element i as a string. It copies that element.
func (a *Array) ValueStr(i int) string {
	host := a.mustElement(i)
	defer host.Release()
	return host.ValueStr(0)
}

// GetOneForMarshal is element i as a value for json.Marshal. It copies that
// element.
func (a *Array) GetOneForMarshal(i int) any {
	host := a.mustElement(i)
	defer host.Release()
	return host.GetOneForMarshal(0)
}

func (a *Array) mustElement(i int) arrow.Array {
	host, err := a.element(i)
	if err != nil {
		panic(a.failure(fmt.Sprintf("element %d", i), err))
	}
	return host
}
