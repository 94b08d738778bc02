// The smallest image and the shortest sound.

package backend

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
)

// pixel is a PNG image of one red pixel.
var pixel = func() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.RGBA{R: 255, A: 255})
	var b bytes.Buffer
	// Writing to memory does not fail.
	_ = png.Encode(&b, img)
	return b.Bytes()
}()

// silence returns a WAV sound of one sample: 8 kHz, mono, 16 bits.
func silence() []byte {
	const rate, size = 8000, 2
	b := []byte("RIFF")
	b = binary.LittleEndian.AppendUint32(b, 36+size)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1) // PCM
	b = binary.LittleEndian.AppendUint16(b, 1) // one channel
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = binary.LittleEndian.AppendUint32(b, rate*size)
	b = binary.LittleEndian.AppendUint16(b, size)
	b = binary.LittleEndian.AppendUint16(b, 8*size)
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, size)
	return append(b, 0, 0)
}
