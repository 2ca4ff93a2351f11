package driver

import "fmt"

// String writes the UUID as nvidia-smi does behind "GPU-": in hexadecimal, in
// five groups.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
