// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

// format_c1
// expected-error@+1 {{a format has 8 or 16 bits or is f32, got 1 + 4 + 4}}
#f = #altgrad.format<exponent = 4, mantissa = 4, bias = 7, inf = false, nan = none>

// -----

// format_c2
// expected-error@+1 {{a format has 1 to 8 exponent bits, got 9}}
#f = #altgrad.format<exponent = 9, mantissa = 6, bias = 127, inf = false, nan = none>

// -----

// format_c2
// expected-error@+1 {{a format has 1 to 8 exponent bits, got 0}}
#f = #altgrad.format<exponent = 0, mantissa = 7, bias = 0, inf = false, nan = none>

// -----

// format_c3
// expected-error@+1 {{a format has a bias of 0 to 127, got -1}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = -1, inf = false, nan = none>

// -----

// format_c3
// expected-error@+1 {{a format has a bias of 0 to 127, got 128}}
#f = #altgrad.format<exponent = 8, mantissa = 7, bias = 128, inf = true, nan = ieee>

// -----

// The largest number would be 2^(254 - 126).
// format_c6
// expected-error@+1 {{bias 126 puts numbers beyond f32}}
#f = #altgrad.format<exponent = 8, mantissa = 7, bias = 126, inf = true, nan = ieee>

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

// format_c4
// expected-error@+1 {{a format without a mantissa has no IEEE NaN}}
#f = #altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = true, nan = ieee>

// -----

// As many bits as f32, but another number.
// format_c1
// expected-error@+1 {{a format has 8 or 16 bits or is f32, got 1 + 8 + 23}}
#f = #altgrad.format<exponent = 8, mantissa = 23, bias = 127, inf = false, nan = none>

// -----

// format_c1
// expected-error@+1 {{a format has 8 or 16 bits or is f32, got 1 + 8 + 4294967295}}
#f = #altgrad.format<exponent = 8, mantissa = 4294967295, bias = 127, inf = false, nan = none>

// -----

// expected-error@+1 {{unknown format 'e4m3'; known are f32, bf16, f16, ocp.e4m3fn, ocp.e5m2}}
#f = #altgrad.format<e4m3>

// -----

// expected-error@+1 {{expected inf = true|false, nan = none|all_ones|ieee}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = perhaps, nan = none>

// -----

// expected-error@+1 {{expected inf = true|false, nan = none|all_ones|ieee}}
#f = #altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = some>

// -----

// expected-error@+1 {{expected 'mantissa'}}
#f = #altgrad.format<exponent = 4, bias = 7, inf = false, nan = none>

// -----

// expected-error@+1 {{unknown format 'fp32'; known are f32, bf16, f16, ocp.e4m3fn, ocp.e5m2}}
altgrad.step @s(in %a: !altgrad.tensors<fp32>) { commit }

// -----

// expected-error@+1 {{invalid kind of attribute specified}}
altgrad.step @s(in %a: !altgrad.tensors<"f32">) { commit }
