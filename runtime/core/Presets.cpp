// What others call Muon, as far as the defaults of their classes differ from torch's. Read in
//   kj         KellerJordan/Muon, muon.py: MuonWithAuxAdam                   857d1ad, 2025-11-23
//   dion       microsoft/dion, dion/muon.py: Muon                            0a059a4, 2026-08-07
//   moonlight  MoonshotAI/Moonlight, examples/toy_train.py: Muon             c2ad5b2, 2025-08-02
//   emerging   NVIDIA-NeMo/Emerging-Optimizers, .../muon.py: Muon            fd77292, 2026-08-20
//   vibetensor NVlabs/vibetensor, vibe_kernels/optim/muon.py: TritonMuon     fe85461, 2026-02-02
// tests/python/classes/test_muon_presets.py has their formulas. Where a source has no AdamW, its eps is torch's.
#include "Errors.h"
#include "altgrad_core.h"

#include <cmath>
#include <string>

using namespace altgrad::core;

namespace {

struct Named {
  std::string name;
  altgrad_core_preset of;
};

constexpr altgrad_core_preset_numbers same{NAN, NAN, NAN};
const Named presets[] = {
    {"torch", {same, same, ""}},
    {"kj", {{0.02, 0.0, NAN}, {3e-4, NAN, 1e-10}, "length=added"}},
    {"dion", {{0.01, 0.01, 1e-8}, same, "plain,coefficients=polar_dion,length=added,scale=unclamped,flatten=false"}},
    {"moonlight", {same, {NAN, NAN, 1e-8}, "length=added,scale=match_rms"}},
    {"emerging", {{3e-4, 0.01, 1e-15}, {NAN, NAN, 1e-8}, "plain,coefficients=you,scale=spectral"}},
    {"vibetensor", {{0.02, 0.01, NAN}, same, "length=added,flatten=true"}},
};

} // namespace

altgrad_status altgrad_core_find_preset(const char *name, altgrad_core_preset *out) {
  return guarded([&] {
    std::string known;
    for (const Named &preset : presets) {
      if (preset.name == name) {
        *out = preset.of;
        return;
      }
      known += (known.empty() ? "'" : ", '") + preset.name + "'";
    }
    throw Refusal(ALTGRAD_INVALID, "profile is '" + std::string(name) + "', none of " + known);
  });
}
