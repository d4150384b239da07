"""A master beside the parameter, or one whose upper half the parameter is: "master=bf16+i16"."""

# The key in `state` of the 16 bits for which a bfloat16 parameter has no room.
REMAINDER = "remainder"


def splits(word):
    """Whether a master is stored as the parameter and a remainder."""
    return "+" in word


def kept_beside(words):
    """(the compiler's word, key in state) of the master and the further copy."""
    return [(word, REMAINDER if splits(words[word]) else word)
            for word in ("master", "copy") if word in words]


def own_master(words):
    """The words of storage for a float32 parameter, which is such a master itself."""
    return {name: word for name, word in words.items() if name != "master" or not splits(word)}


def check_master(words, held, names, param):
    """Raises ValueError where the master that is there is stored otherwise than `words` say."""
    divided = splits(words.get("master", ""))
    known = [key for _, key in names]
    lone = [key for key in ("master", REMAINDER) if key in held and key not in known]
    if divided and lone or not divided and REMAINDER in lone:
        said = f"storage says master={words['master']}" if "master" in words else (
            "storage says nothing of a master")
        raise ValueError(f"there is a state {lone[0]!r}, but {said}: make the optimizer with the "
                         "storage that its states have, or altgrad.transcode them")
    if divided and REMAINDER in held and param.itemsize != 2:
        raise ValueError(f"there is a state {REMAINDER!r} of a {param} parameter, which needs none")
