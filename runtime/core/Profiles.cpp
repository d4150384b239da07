// What others call Muon, as far as the defaults of their classes differ from torch's. Read in
//   kj         KellerJordan/Muon, muon.py: MuonWithAuxAdam                   857d1ad, 2025-11-23
//   dion       microsoft/dion, dion/muon.py: Muon                            0a059a4, 2026-08-07
//   moonlight  MoonshotAI/Moonlight, examples/toy_train.py: Muon             c2ad5b2, 2025-08-02
//   emerging   NVIDIA-NeMo/Emerging-Optimizers, .../muon.py: Muon            fd77292, 2026-08-20
//   vibetensor NVlabs/vibetensor, vibe_kernels/optim/muon.py: TritonMuon     fe85461, 2026-02-02
// tests/python/classes/test_muon_presets.py has their formulas. Where a source has no AdamW, its eps is torch's.
#include "Errors.h"
#include "table.h"

#include <cmath>
#include <string>

using namespace altgrad::core;

namespace {

struct Named {
  std::string name;
  altgrad_table_profile of;
};

constexpr altgrad_table_numbers same{NAN, NAN, NAN};
const Named profiles[] = {
    {"torch", {same, same, ""}},
    {"kj", {{0.02, 0.0, NAN}, {3e-4, NAN, 1e-10}, "length=added"}},
    {"dion", {{0.01, 0.01, 1e-8}, same, "plain,coefficients=polar_dion,length=added,scale=unclamped,flatten=false"}},
    {"moonlight", {same, {NAN, NAN, 1e-8}, "length=added,scale=match_rms"}},
    {"emerging", {{3e-4, 0.01, 1e-15}, {NAN, NAN, 1e-8}, "plain,coefficients=you,scale=spectral"}},
    {"vibetensor", {{0.02, 0.01, NAN}, same, "length=added,flatten=true"}},
};

} // namespace

altgrad_status altgrad_table_find_profile(const char *name, altgrad_table_profile *out) {
  return guarded([&] {
    std::string known;
    for (const Named &profile : profiles) {
      if (profile.name == name) {
        *out = profile.of;
        return;
      }
      known += (known.empty() ? "'" : ", '") + profile.name + "'";
    }
    throw Refusal(ALTGRAD_INVALID, "profile is '" + std::string(name) + "', none of " + known);
  });
}
