// Compiled conversions, as they run on this CPU, over all 2^32 floats and all
// codes.
//
//   format-generated COMPILER DEVICE stride threads [name...]
//
// DEVICE is cpu:v3 or cpu:v4; stride 1: every float; 0: strata. The oracle is
// FormatOracle.h; codes are decoded as the codec does, which format-exhaustive
// proves.
#include "FormatOracle.h"
#include "altgrad/altgrad.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

using namespace altgrad;
using namespace oracle;

static void must(altgrad_status status) {
  if (!status)
    return;
  fprintf(stderr, "format-generated: %s\n", altgrad_last_error());
  exit(status == ALTGRAD_UNAVAILABLE ? 77 : 2); // ctest's word for skipped
}

static const char *compiler, *device;

// A step that rounds %x in the modes that its format has, and reads codes.
static std::string specOf(const Preset &preset) {
  std::string type = "!altgrad.tensors<" + std::string(preset.name) + ">";
  auto round = [&](const char *code, bool finite) {
    return std::string("  ") + code +
           " = quantize %n round<nearest_even> overflow<" +
           (finite || preset.format.nan == NanCode::None ? "saturate"
                                                         : "nonfinite") +
           "> : " + type + "\n";
  };
  // A sweep over blocks decodes the codes of books in another way.
  std::string scale = "!altgrad.tensors<f32 per 1x32>";
  bool book = preset.format.book > 0;
  return "altgrad.step @s(in %x: !altgrad.tensors<f32>, out %a: " + type +
         ", out %b: " + type + ", in %c: " + type +
         " set 1, out %d: !altgrad.tensors<f32> set 1" +
         (book ? ", out %e: " + scale + " set 1, in %f: " + type +
                     " set 2, out %h: !altgrad.tensors<f32> set 2"
               : "") +
         ") {\n"
         "  %n = dequantize %x : !altgrad.tensors<f32>\n" +
         round("%ka", false) + round("%kb", true) +
         "  %m = dequantize %c : " + type +
         (book ? "\n  %r = element %m\n"
                 "  %most = reduce max %r over block<1x32> : f32\n"
                 "  %u = collect %most : f32 to !altgrad.reals\n"
                 "  %o = dequantize %f : " +
                     type
               : "") +
         "\n  commit always %ka to %a : " + type + ", %kb to %b : " + type +
         ", %m to %d : !altgrad.tensors<f32>" +
         (book ? ", %u to %e : " + scale + ", %o to %h : !altgrad.tensors<f32>"
               : "") +
         "\n}\n";
}

namespace {
// The step on its own memory: `size` floats, and every code.
class Step {
public:
  Step(altgrad_bundle *bundle, const Format &f, size_t size)
      : codes(1u << f.bits()), wide(f.bits() > 8), floats(size),
        nonFinite(size * 2), saturate(size * 2), coded(codes * 2),
        decoded(codes), again(f.book ? codes : 0), largest(codes / 32 + 1) {
    for (uint32_t code = 0; code < codes; ++code)
      put(coded, code, uint16_t(code));
    must(altgrad_plan_create(bundle, device, &plan));
    must(altgrad_set_threads(plan, 1));
    altgrad_tensor rows[3] = {};
    for (int i : {0, 1, 2})
      rows[i] = {sizeof rows[i], int64_t(i ? codes : size), 0, 0, 0, i, i, -1, 0, 0, 0};
    must(altgrad_bind_tensors(plan, rows, f.book ? 3 : 2, f.book ? 3 : 2));
    bind("x", floats.data());
    bind("a", nonFinite.data());
    bind("b", saturate.data());
    bind("c", coded.data());
    bind("d", decoded.data());
    if (f.book) {
      bind("e", largest.data());
      bind("f", coded.data());
      bind("h", again.data());
    }
    uint64_t bytes;
    must(altgrad_workspace(plan, &bytes));
    workspace.resize(bytes + 64);
  }
  ~Step() { altgrad_plan_free(plan); }

  void run() {
    uintptr_t at = (uintptr_t(workspace.data()) + 63) & ~uintptr_t(63);
    must(altgrad_run(plan, reinterpret_cast<void *>(at), workspace.size() - 64,
                     0, -1, nullptr));
  }
  uint32_t codeAt(const std::vector<uint8_t> &from, size_t i) const {
    return wide ? from[2 * i] | uint32_t(from[2 * i + 1]) << 8 : from[i];
  }
  void put(std::vector<uint8_t> &to, size_t i, uint16_t code) const {
    if (wide)
      memcpy(&to[2 * i], &code, 2);
    else
      to[i] = uint8_t(code);
  }

  size_t codes;
  bool wide;
  std::vector<uint32_t> floats;
  std::vector<uint8_t> nonFinite, saturate, coded;
  std::vector<uint32_t> decoded, again, largest;

private:
  void bind(const char *name, void *pointer) {
    must(altgrad_bind_stream(plan, name, &pointer, 1));
  }
  altgrad_plan *plan = nullptr;
  std::vector<uint8_t> workspace;
};
} // namespace

static constexpr size_t part = 1 << 16;

static uint64_t checkPart(Step &step, const Preset &preset, Oracle &expected,
                          uint32_t sign, const Magnitudes &magnitudes,
                          uint64_t first) {
  uint64_t wrong = 0,
           count = std::min<uint64_t>(part, magnitudes.count() - first);
  for (uint64_t i = 0; i < count; ++i)
    step.floats[i] = magnitudes.at(first + i) | sign;
  step.run();
  expected.seek(step.floats[0] & 0x7fffffff);
  for (uint64_t i = 0; i < count; ++i) {
    Expected e = expected.at(step.floats[i] & 0x7fffffff);
    uint32_t a = step.codeAt(step.nonFinite, i),
             b = step.codeAt(step.saturate, i);
    if ((a != e.nonFinite || b != e.saturate) && ++wrong <= 5)
      printf("%s: %08x gives %x and %x, expected %x and %x\n", preset.name,
             step.floats[i], a, b, e.nonFinite, e.saturate);
  }
  return wrong;
}

static bool check(const Preset &preset, const Magnitudes &magnitudes,
                  unsigned threads) {
  std::string spec = specOf(preset), level = std::string(device).substr(4);
  altgrad_bundle *bundle;
  must(altgrad_compile(spec.data(), spec.size(),
                       ("--target=x86-64-" + level).c_str(), compiler,
                       &bundle));
  std::atomic<uint64_t> next{0}, wrong{0};
  uint64_t parts = (magnitudes.count() + part - 1) / part;
  auto work = [&] {
    Step step(bundle, preset.format, part);
    Oracle positive(preset.format, false), negative(preset.format, true);
    for (uint64_t i; (i = next++) < 2 * parts;)
      wrong += checkPart(step, preset, i % 2 ? negative : positive,
                         i % 2 ? 1u << 31 : 0, magnitudes, i / 2 * part);
    step.run(); // a thread that begins late finds no part left
    for (uint32_t code = 0; code < step.codes; ++code)
      wrong += step.decoded[code] != decodeBits(preset.format, code);
    for (uint32_t code = 0; code < step.again.size(); ++code)
      wrong += step.again[code] != decodeBits(preset.format, code);
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
  altgrad_bundle_free(bundle);
  printf("%-15s %s: %llu floats, 2 modes, %llu wrong; %u codes\n", preset.name,
         device, (unsigned long long)(2 * magnitudes.count()),
         (unsigned long long)wrong.load(), 1u << preset.format.bits());
  fflush(stdout);
  return wrong == 0;
}

int main(int count, char **arguments) {
  if (count < 5) {
    fprintf(stderr,
            "format-generated COMPILER DEVICE stride threads [name...]\n");
    return 2;
  }
  compiler = arguments[1];
  device = arguments[2];
  bool right = true;
  for (const Preset &preset : presets) {
    bool wanted = count <= 5 && preset.format.bits() <= 16;
    for (int i = 5; i < count; ++i)
      wanted |= strcmp(arguments[i], preset.name) == 0;
    if (wanted)
      right = check(preset, {uint32_t(atoi(arguments[3]))},
                    unsigned(atoi(arguments[4]))) &&
              right;
  }
  return right ? 0 : 1;
}
