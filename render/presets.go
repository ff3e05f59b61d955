package render

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/lease"
)

// presets are the programs that are known by a name.
var presets = map[string]Program{
	"blender": {
		Path: "blender",
		Args: []string{
			"--background", "{source}", "--python-exit-code", "1", "--python-expr",
			// Blender's own option for the output adds a frame number to it.
			"import bpy, sys; r = bpy.context.scene.render; r.filepath = sys.argv[-1]; r.use_file_extension = False; " +
				"r.image_settings.file_format = 'PNG'; bpy.ops.render.render(write_still=True)",
			"--", "{output}",
		},
		Install: "apt-get install blender",
	},
	"povray": {
		Path:    "povray",
		Args:    []string{"+I{source}", "+O{output}", "+L{sourcedir}", "+FN", "-D", "-GD", "-GR", "-GS"},
		Install: "apt-get install povray",
	},
	"ffmpeg": {
		Path:    "ffmpeg",
		Args:    []string{"-nostdin", "-hide_banner", "-loglevel", "error", "-i", "{source}", "{output}"},
		Install: "apt-get install ffmpeg",
	},
}

// Presets returns the names of the programs that [ParseProgram] knows.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// ParseProgram reads a program as a command line has it: the name of a preset
// or a path, and arguments, with spaces between. There is no quoting: for an
// argument with a space in it make the [Program] itself. A preset's own
// arguments come first.
func ParseProgram(text string) (Program, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Program{}, lease.Errorf(lease.CodeRequestInvalid, "cannot use the render command: it is empty; name a program or one of %s", strings.Join(Presets(), ", "))
	}
	if p, ok := presets[words[0]]; ok {
		p.Args = append(slices.Clone(p.Args), words[1:]...)
		return p, nil
	}
	return Program{Path: words[0], Args: words[1:]}, nil
}
