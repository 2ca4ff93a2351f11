package metajson

import "encoding/json"

// Extension is a data type, a chunk grid, a chunk key encoding or a codec as
// metadata names it: {"name", "configuration", "must_understand"}, or a bare
// string for the name alone (Zarr core 3.1, "Extension definition").
type Extension struct {
	Name           string
	Config         *Object // empty where absent, never nil
	MustUnderstand bool    // true where absent
}

// ParseExtension reads either form.
func ParseExtension(what string, raw json.RawMessage) (Extension, error) {
	ext := Extension{MustUnderstand: true, Config: &Object{members: map[string]json.RawMessage{}}}
	if json.Unmarshal(raw, &ext.Name) == nil && ext.Name != "" {
		return ext, nil
	}
	o, err := ParseObject(what, raw)
	if err != nil {
		return ext, err
	}
	if err := o.Need("name", &ext.Name); err != nil {
		return ext, err
	}
	if _, err := o.Maybe("must_understand", &ext.MustUnderstand); err != nil {
		return ext, err
	}
	if config, ok := o.Take("configuration"); ok {
		if ext.Config, err = ParseObject(what+" "+ext.Name, config); err != nil {
			return ext, err
		}
	}
	return ext, o.Done()
}
