// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

// format_c1
// expected-error@+1 {{a format has 2 to 16 bits or is f32, got 1 + 0 + 0}}
#f = #altgrad.format<exponent = 0, mantissa = 0, bias = 0, inf = false, nan = none>

// -----

// format_c1
// expected-error@+1 {{a format has 2 to 16 bits or is f32, got 0 + 1 + 0}}
#f = #altgrad.format<exponent = 1, mantissa = 0, bias = 0, inf = false, nan = none, signed = false>

// -----

// format_c1
// expected-error@+1 {{a format has 2 to 16 bits or is f32, got 1 + 4 + 12}}
#f = #altgrad.format<exponent = 4, mantissa = 12, bias = 7, inf = false, nan = none>

// -----

// As many bits as f32, but another number.
// format_c1
// expected-error@+1 {{a format has 2 to 16 bits or is f32, got 1 + 8 + 23}}
#f = #altgrad.format<exponent = 8, mantissa = 23, bias = 127, inf = false, nan = none>

// -----

// format_c1
// expected-error@+1 {{a format has 2 to 16 bits or is f32, got 1 + 8 + 4294967295}}
#f = #altgrad.format<exponent = 8, mantissa = 4294967295, bias = 127, inf = false, nan = none>

// -----

// format_c2
// expected-error@+1 {{a format has 0 to 8 exponent bits, got 9}}
#f = #altgrad.format<exponent = 9, mantissa = 6, bias = 255, inf = false, nan = none>

// -----

// format_c3
// expected-error@+1 {{every number of this format is an f32 if its bias is -112 to 147, got 148}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 148, inf = false, nan = none>

// -----

// format_c3
// expected-error@+1 {{every number of this format is an f32 if its bias is -112 to 147, got -113}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = -113, inf = false, nan = none>

// -----

// The largest number would be 2^(254 - 126).
// format_c3
// expected-error@+1 {{every number of this format is an f32 if its bias is 127 to 143, got 126}}
#f = #altgrad.format<exponent = 8, mantissa = 7, bias = 126, inf = true, nan = ieee>

// -----

// bf16 without infinities ends at 2^128.
// format_c3
// expected-error@+1 {{every number of this format is an f32 if its bias is 128 to 143, got 127}}
#f = #altgrad.format<exponent = 8, mantissa = 7, bias = 127, inf = false, nan = none>

// -----

// format_c3
// expected-error@+1 {{every number of this format is an f32 if its bias is -127 to 142, got 2147483647}}
#f = #altgrad.format<exponent = 0, mantissa = 7, bias = 2147483647, inf = false, nan = none>

// -----

// format_c4
// expected-error@+1 {{a format without an exponent or a mantissa has no IEEE NaN}}
#f = #altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = true, nan = ieee>

// -----

// format_c4
// expected-error@+1 {{a format without an exponent or a mantissa has no IEEE NaN}}
#f = #altgrad.format<exponent = 0, mantissa = 7, bias = 0, inf = true, nan = ieee>

// -----

// format_c5
// expected-error@+1 {{a format has an infinity exactly when its NaN is ieee, got inf = true, nan = all_ones}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = true, nan = all_ones>

// -----

// format_c5
// expected-error@+1 {{a format has an infinity exactly when its NaN is ieee, got inf = true, nan = none}}
#f = #altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = true, nan = none>

// -----

// format_c5
// expected-error@+1 {{a format has an infinity exactly when its NaN is ieee, got inf = false, nan = ieee}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = ieee>

// -----

// format_c6
// expected-error@+1 {{a format of 2 bits has no code left for a NaN}}
#f = #altgrad.format<exponent = 1, mantissa = 0, bias = 0, inf = false, nan = all_ones>

// -----

// format_c7
// expected-error@+1 {{a format without a zero has neither a mantissa nor a sign}}
#f = #altgrad.format<exponent = 7, mantissa = 1, bias = 63, inf = false, nan = none, signed = false, zero = false>

// -----

// format_c7
// expected-error@+1 {{a format without a zero has neither a mantissa nor a sign}}
#f = #altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = false, nan = none, zero = false>

// -----

// format_c8
// expected-error@+1 {{ties go to the even code in a format with a mantissa or less than 2 exponent bits}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = none, ties = down>

// -----

// format_c9
// expected-error@+1 {{two's complement has a sign, no exponent and no NaN}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = none, complement = true>

// -----

// expected-error@+1 {{unknown format 'e4m3'; did you mean}}
#f = #altgrad.format<e4m3>

// -----

// expected-error@+1 {{expected integer value}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = perhaps, nan = none>

// -----

// expected-error@+1 {{there is no 'some'; did you mean 'none'? There are none, all_ones, ieee}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = some>

// -----

// expected-error@+1 {{expected 'mantissa'}}
#f = #altgrad.format<exponent = 4, bias = 7, inf = false, nan = none>

// -----

// expected-error@+1 {{there is no 'away'; there are even, down, up}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = none, ties = away>

// -----

// expected-error@+1 {{expected signed, zero, ties or complement}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = none, subnormals = false>

// -----

// expected-error@+1 {{unknown format 'fp32'; did you mean}}
altgrad.step @s(in %a: !altgrad.tensors<fp32>) { commit }

// -----

// expected-error@+1 {{invalid kind of attribute specified}}
altgrad.step @s(in %a: !altgrad.tensors<"f32">) { commit }
