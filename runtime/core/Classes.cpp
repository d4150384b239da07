// The one table of classes: templates, narrow storages, and the keys of states in files.
#include "altgrad_classes.h"

#include <cstring>
#include <strings.h>

namespace {

// The keys of each rule's states, as the build finds them in the templates.
#include "Keys.inc"

// Of fp8 maps, and of 8 and of 4 bits.
constexpr const char *fp8 = "states=ocp.e5m2:256,keep_positive m=ocp.e4m3fn:256",
                     *eight = "states=bnb8u:256,keep_positive m=bnb8:256",
                     *four = "states=torchao4u:128 m=torchao4:128";

// The classes that have a storage of their own, or matrices.
constexpr altgrad_core_class classes[] = {
    {"Adam4bit", "adam", four, KEYS_adam, ""},
    {"Adam8bit", "adam", eight, KEYS_adam, ""},
    {"AdamFp8", "adam", fp8, KEYS_adam, ""},
    {"AdamW4bit", "adamw", four, KEYS_adamw, ""},
    {"AdamW8bit", "adamw", eight, KEYS_adamw, ""},
    {"AdamWFp8", "adamw", fp8, KEYS_adamw, ""},
    {"GridOptim", "gridoptim", "states=f32 rungs=ocp.e4m3fn", KEYS_gridoptim, ""},
    {"Lion8bit", "lion", "states=bnb8:256", KEYS_lion, ""},
    {"LionFp8", "lion", "states=ocp.e4m3fn:256", KEYS_lion, ""},
    // With AdamW beside it, without amsgrad.
    {"Muon", "muon", "", KEYS_muon " m=exp_avg v=exp_avg_sq", "units"},
    {"NorMuon", "normuon", "", KEYS_normuon " m=exp_avg v=exp_avg_sq", "rows"},
};

// Any other class has the name of its template, in capitals where it likes.
constexpr altgrad_core_class templates[] = {TEMPLATES};

} // namespace

const altgrad_core_class *altgrad_core_class_of(const char *name) {
  for (const altgrad_core_class &of : classes)
    if (!strcmp(of.name, name))
      return &of;
  for (const altgrad_core_class &of : templates)
    if (!strcasecmp(of.name, name))
      return &of;
  return nullptr;
}
