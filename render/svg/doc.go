// Package svg draws SVG documents as pictures, in pure Go.
//
// It does not draw everything: text, embedded images, filters, masks,
// patterns and markers are left out, and [Picture.LeftOut] names what a
// document has of them, so that no picture is silently less than its document.
// It runs no script and opens no other file. The opacity of a group is applied
// to each of its shapes; a stroke under a skewing transform has one width.
//
// Paths are stroked by github.com/srwiley/rasterx and scanned by
// github.com/golang/freetype/raster. The two libraries that read whole SVG
// files were measured on 540 files of nine of Debian 12's icon packages
// against librsvg, at 128 pixels: fyne-io/oksvg 0.2.0 drew 412 and refused
// 126, tdewolff/canvas (2025-07-28) drew 462 and refused 78; 254 and 171 looked
// the same as librsvg's. oksvg knows no currentColor and no inherited
// gradient, and neither scales a gradient or a stroke with its shape. This
// package reads the document itself.
package svg
