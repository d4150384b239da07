"""Ranks whose models differ, as where each half has an expert of its own: owners of matrices refuse them on all ranks."""

import proof
import ranks


def said(rank, group):
    words = []
    for case in ("Muon", "Adafactor"):
        model, optimizer = proof.made(case, "modules of experts", False)
        model(0).backward()
        try:
            words.append(optimizer.step())
        except ValueError as error:
            words.append(str(error))
    return words


def test_matrices_that_differ_between_ranks_are_refused_everywhere(tmp_path):
    answers, = ranks.run([said], tmp_path, 4)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert all("has other parameters" in (word or "") and "meshes" in word for word in answer), answer
