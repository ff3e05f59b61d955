package server

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is the JSON of protocol buffers, in which a field that the message
// does not have is an error: it is a slip of the pen, and would else be dropped
// without a word.
type strictJSON struct{ name string }

func (c strictJSON) Name() string { return c.name }

func (strictJSON) Marshal(m any) ([]byte, error) { return protojson.Marshal(m.(proto.Message)) }

func (strictJSON) Unmarshal(text []byte, m any) error {
	return protojson.Unmarshal(text, m.(proto.Message))
}
