package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
)

// Schema is the part of JSON Schema 2020-12, as OpenAPI 3.1 takes it, that the types of this package need.
type Schema struct {
	Ref         string             `json:"$ref,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Description string             `json:"description,omitempty"`
	Default     json.RawMessage    `json:"default,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Minimum     *int64             `json:"minimum,omitempty"`
	MaxLength   int                `json:"maxLength,omitempty"` // in code points, where the codec counts bytes
	Items       *Schema            `json:"items,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"` // in the order of the struct
	// Additional is a *Schema for the values of a map, false for a struct of a request, nil for one of an answer.
	Additional any `json:"additionalProperties,omitempty"`
}

// Components collects the schemas of structs under their names, as for OpenAPI's components/schemas. A struct that occurs
// in both directions has two: the one that is added second is named with the suffix Request or Answer.
type Components struct {
	Schemas map[string]*Schema
	names   map[component]string
}

// component is a type in one direction: the same struct is strict in requests and open to new fields in answers.
type component struct {
	typ    reflect.Type
	answer bool
}

// NewComponents returns an empty collection.
func NewComponents() *Components {
	return &Components{Schemas: map[string]*Schema{}, names: map[component]string{}}
}

// Request adds the schema of a request struct, and of the structs in it, and returns a reference to it. Fields without a
// default are required, unknown ones are not allowed.
func (c *Components) Request(t reflect.Type) *Schema { return c.structure(planOf(t), false) }

// Answer adds the schema of an answer struct, and of the structs in it, and returns a reference to it. All fields are
// present but those that leave out a zero value, and newer versions may add others.
func (c *Components) Answer(t reflect.Type) *Schema { return c.structure(planOf(t), true) }

func (c *Components) structure(p *plan, answer bool) *Schema {
	id := component{p.typ, answer}
	name, known := c.names[id]
	if !known {
		name = c.name(id)
		s := &Schema{Type: "object", Properties: map[string]*Schema{}}
		c.names[id], c.Schemas[name] = name, s
		c.fill(s, p, answer)
	}
	return &Schema{Ref: "#/components/schemas/" + name}
}

// name is the type's own; two types of one name and direction are a mistake in the program.
func (c *Components) name(id component) string {
	name := id.typ.Name()
	if _, both := c.names[component{id.typ, !id.answer}]; both && id.answer {
		name += "Answer"
	} else if both {
		name += "Request"
	}
	if _, taken := c.Schemas[name]; taken {
		panic(fmt.Sprintf("wire: a second schema named %s, for %v", name, id.typ))
	}
	return name
}

func (c *Components) fill(s *Schema, p *plan, answer bool) {
	if !answer {
		s.Additional = false
	}
	for i := range p.fields {
		f := &p.fields[i]
		fs := c.schema(f.plan, answer)
		fs.Description = f.doc
		if f.optional && !answer {
			fs.Default = f.defaultJSON()
		}
		if (answer && !f.omitZero) || (!answer && !f.optional) {
			s.Required = append(s.Required, f.name)
		}
		s.Properties[f.name] = fs
	}
}

func (c *Components) schema(p *plan, answer bool) *Schema {
	switch {
	case p.kind == boolean:
		return &Schema{Type: "boolean"}
	case p.kind == integer:
		return p.integerSchema(answer)
	case p.kind == text && answer:
		return &Schema{Type: "string"}
	case p.kind == text:
		return &Schema{Type: "string", Enum: p.oneOf, MaxLength: p.maxLen}
	case p.kind == array:
		return &Schema{Type: "array", Items: c.schema(p.elem, answer)}
	case p.elem != nil:
		return &Schema{Type: "object", Additional: c.schema(p.elem, answer)}
	}
	return c.structure(p, answer)
}

func (p *plan) integerSchema(answer bool) *Schema {
	s := &Schema{Type: "integer", Format: p.typ.Kind().String()}
	if p.min != math.MinInt64 && !answer {
		s.Minimum = &p.min
	}
	return s
}

// defaultJSON is nil for a text type's zero value, which has no text of its own in a request.
func (f *field) defaultJSON() json.RawMessage {
	if f.marshaled && f.zero.IsZero() {
		return nil
	}
	v := reflect.New(f.typ).Elem()
	v.Set(f.zero)
	e := encoder{format: JSON, writer: writers[JSON]}
	out, err := e.value(nil, f.plan, v)
	if err != nil {
		panic(err) // it was decoded when the plan was compiled
	}
	return out
}
