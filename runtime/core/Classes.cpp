// The one table of classes: templates, narrow storages, and the keys of states in files.
#include "altgrad_classes.h"

#include <cstring>

namespace {

constexpr const char *adam = "m=exp_avg v=exp_avg_sq vmax=max_exp_avg_sq", *moments = "m=exp_avg v=exp_avg_sq",
                     *lion = "m=exp_avg";
// Of fp8 maps, and of 8 and of 4 bits.
constexpr const char *fp8 = "states=ocp.e5m2:256,keep_positive m=ocp.e4m3fn:256",
                     *eight = "states=bnb8u:256,keep_positive m=bnb8:256", *four = "states=torchao4u:128 m=torchao4:128";

constexpr altgrad_core_class classes[] = {
    {"Adagrad", "adagrad", "", "sum=sum", ""},
    {"Adam", "adam", "", adam, ""},
    {"Adam4bit", "adam", four, adam, ""},
    {"Adam8bit", "adam", eight, adam, ""},
    {"AdamFp8", "adam", fp8, adam, ""},
    {"AdamW", "adamw", "", adam, ""},
    {"AdamW4bit", "adamw", four, adam, ""},
    {"AdamW8bit", "adamw", eight, adam, ""},
    {"AdamWFp8", "adamw", fp8, adam, ""},
    {"ADOPT", "adopt", "", moments, ""},
    {"AdEMAMix", "ademamix", "", "fast=exp_avg_fast slow=exp_avg_slow v=exp_avg_sq", ""},
    {"GridOptim", "gridoptim", "states=f32 rungs=ocp.e4m3fn", "velocity=velocity", ""},
    {"LAMB", "lamb", "", moments, ""},
    {"Lion", "lion", "", lion, ""},
    {"Lion8bit", "lion", "states=bnb8:256", lion, ""},
    {"LionFp8", "lion", "states=ocp.e4m3fn:256", lion, ""},
    {"ManifoldAdamW", "manifoldadamw", "", "m=exp_avg v=exp_avg_sq position=bit_position", ""},
    // With AdamW beside it.
    {"Muon", "muon", "", "buf=momentum_buffer m=exp_avg v=exp_avg_sq", "units"},
    {"NorMuon", "normuon", "", "buf=momentum_buffer m=exp_avg v=exp_avg_sq second=second_momentum_buffer", "rows"},
    {"RMSprop", "rmsprop", "", "v=square_avg mean=grad_avg buf=momentum_buffer", ""},
    {"SGD", "sgd", "", "buf=momentum_buffer", ""},
};

} // namespace

const altgrad_core_class *altgrad_core_class_of(const char *name) {
  for (const altgrad_core_class &of : classes)
    if (!strcmp(of.name, name))
      return &of;
  return nullptr;
}
