// rcp.approx and rsqrt.approx: the ISA says how far off they may be, not where.
// They are rounded correctly here, or, where a launch has a perturbation, off
// by as many units in the last place as the operand and that number draw.
// Programs whose results may depend on the drawing are wrong.
#include "Machine.h"
#include "Registry.h"
#include "SoftFloat.h"

using namespace ptx;

namespace {

// The ISA's bounds and one more: 1 unit, and 2^-22.9 relative, which is
// below 3.
constexpr int rcpUnits = 2, rsqrtUnits = 3;

int drawn(const Thread &t, uint64_t operand, int units) {
  uint64_t seed = t.block->machine->options.perturbation;
  if (!seed)
    return 0;
  uint64_t x = (operand + 1) * 0x9e3779b97f4a7c15u ^ seed * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 31) * 0x94d049bb133111ebu;
  return int((x >> 33) % uint64_t(2 * units + 1)) - units;
}

/// Moves a normal number; zeros, infinities and NaN are what the ISA says.
uint64_t moved(const Thread &t, uint64_t operand, uint64_t result, int units) {
  uint64_t magnitude = F32.magnitude(result);
  if (!magnitude || magnitude >= F32.infinity)
    return result;
  return soft::flush(F32, result + uint64_t(drawn(t, operand, units)));
}

void rcp(Thread &t, const Instruction &i) {
  uint64_t x = soft::flush(F32, read(t, i.operands[1]));
  uint64_t r = soft::div(F32, F32.one(), x, Rounding::NearestEven);
  write(t, i.operands[0], moved(t, x, soft::flush(F32, r), rcpUnits));
}

// By way of f64: what is rounded twice is off by less than the drawing.
void rsqrt(Thread &t, const Instruction &i) {
  uint64_t x = soft::flush(F32, read(t, i.operands[1]));
  Rounding even = Rounding::NearestEven;
  uint64_t wide = soft::convert(F32, F64, x, even, false);
  uint64_t r = soft::div(F64, F64.one(), soft::sqrt(F64, wide, even), even);
  r = soft::convert(F64, F32, r, even, false);
  write(t, i.operands[0], moved(t, x, r, rsqrtUnits));
}

} // namespace

void ptx::addApproxForms(Registry &registry) {
  registry.add("rcp.approx.ftz.f32", rcp, "=f32 f32");
  registry.add("rsqrt.approx.ftz.f32", rsqrt, "=f32 f32");
}
