package api_test

import (
	"path"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	berthv1 "github.com/berth-dev/berth/api/berth/v1"
)

// TestGeneratedCodeIsOfTheDefinitions: make proto was run after the last change.
func TestGeneratedCodeIsOfTheDefinitions(t *testing.T) {
	generated := map[string]protoreflect.FileDescriptor{
		"lease.proto": berthv1.File_berth_v1_lease_proto,
		"pool.proto":  berthv1.File_berth_v1_pool_proto,
		"error.proto": berthv1.File_berth_v1_error_proto,
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{})}
	for name, file := range generated {
		files, err := compiler.Compile(t.Context(), path.Join("berth/v1", name))
		if err != nil {
			t.Fatal(err)
		}
		want, got := protodesc.ToFileDescriptorProto(files[0]), protodesc.ToFileDescriptorProto(file)
		want.SourceCodeInfo = nil
		if !proto.Equal(want, got) {
			t.Errorf("%s was changed since its code was generated; run make proto", name)
		}
	}
}
