// What others call Muon, as far as theirs differ from torch's. Sources: KellerJordan/Muon, microsoft/dion, Moonlight
// (2025), NVIDIA-NeMo/Emerging-Optimizers, vibetensor.
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

const Named profiles[] = {
    {"torch", {NAN, NAN, NAN, ""}},
    {"kj", {0.02, 0.0, NAN, "length=added"}},
    {"dion", {NAN, NAN, 1e-6, "plain,coefficients=polar_dion,length=added,scale=unclamped"}},
    {"moonlight", {NAN, NAN, NAN, "scale=match_rms"}},
    {"emerging", {NAN, NAN, 1e-15, "plain,coefficients=polar_emerging"}},
    {"vibetensor", {0.02, 0.01, NAN, "length=added"}},
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
