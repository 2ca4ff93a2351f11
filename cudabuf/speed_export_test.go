package cudabuf

// DriverCall makes the cheapest call that needs no context, for benchmarks of
// what a call costs by itself.
func (d *Device) DriverCall() error {
	_, err := d.api.DriverGetVersion()
	return err
}
