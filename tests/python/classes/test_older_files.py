"""Pickles and state_dicts of an earlier version, which say `profile`, are read by what says `numerics` and `preset`.

The text is what altgrad made at 786e7c40: for SGD(lr=0.1, momentum=0.9, profile="torch", max_grad_norm=1.0),
Muon(profile="kj", ns_dtype=torch.float32), GridOptim(profile="reference", seed=1) and NorMuon(red_dim="by_shape",
profile="torch"), of arange(12).reshape(3, 4) / 8 after a step with gradients of 0.5, (pickle of (parameter, optimizer),
state_dict), and the pickle of a Storage.
"""

import base64
import copy
import pickle
import zlib

import altgrad
import pytest
import torch

HELD = """
eNrtWlts2+YVpizJki+5IHW3ZGsTp7EzuU1ViZJlea1FI8miAVrZNMUGv6QcJf70YUeREi9JHdeFh6KuNLBNi7AYVhjoQ182oFixp2FIAnSXxwTo9hIMex
iyl92CIRuCtRtWYOenLpYcOVEGGXC8MDgW9fOQ/+37zvl4lOXAu6uHGe847UaOzgYZZjnw7mSw1uQMW7pRgKhgW4pqus4ewSB5W1EloSQaYpFYxHAvuMC0
XLCIZuqGcIbFCxFnR+1+Ez/EeeI6uwVVFyVBNvSikF+wiIleR5/wYad93xtU/7N64l+jL/3w5L7oct+zf/bj36UyE5nbjSMpGbqlF3RVOEMMU9G1sg8d5n
bgFVWxLJUIRJMUUSv3VeYGsdFaKBHBVM4Rs+xfKgcic3RCJuiGVQ7m+ub8+E3RrHJ/LjAXoM/QtflyKBewbewzMheizrUhl5mCN4XBEzhw64Va42DZN7cT
faaTU8n4VGqanWTTsVi59txCyS77c8O8VQ48j087XWY6+frE6HBtjZnK4o1L+6//auZ8KZ/Jpn+C9vfM2Opebmw1jTaH9jK3h3fQVtE+5NzX3VNujsn5c4
EVNxfI+VbcqjOEa6OSgoVLg/s09JwhEYNIx5WChSs8ccq18J4K7MKzN/DM+aKoWvOGKEX1kqUUo4IuC940Xcf/QvY4veW77hLuX1gismirlul961MNN8v9
7Af0eM8JF/Ui0Sy7iG03rtDjqjMgicUS0RRtHkfoDJ8lyjxYgkQK4gJtCGvERMzoZ3DE4aL4slLELcLzkKwbRMTueWenpMgyjl2zFDGv0otB2TaJhJd24B
0CHbWg6Qbt9WZtAW0naFqiRVzY4QzVByzVZu6EKSothS5KoN5Glw8eXnKdXY0JCHmb9ulCIAKh+x2O6ck4G4+zXcGx6dsCx8mrFzL3Yp3g6AGNQs40nWEv
VOC+6XbJdE97QOr32ug3eFiER5uYgv1NKMGBHAOjaAer8FgVDvEwVoVxHg6vbbvoDHjQEBBzFFCyqKp5sfAdt+IMCEUimraBAabqDAsqkS0hT0DRJPy+m8
JHUDSBOp8VDdoW0mWZhiZ6ipsrKwg9J1jnRL9wVjckhFCoThs8q699gypwYsk183Z+xY16M6wjcglXphPSNg6s/1fxMzGdSCVi8cRkKpm+G2DbfXsM2K7i
5wZg3qJRsYVkOUa0RXvFPfpov5fe9/Q/SO9dx9PpOJuKJ5LJbuJp07cFnm/+/LWLf/zlpzO3ri9m/n3zMtrnmaXP9nNLn2XQXkR7lcu8ch7tfbSPepLeH1
qX3ou2rmECfJZ+3DG3u+euZ388srgOo9n6VJg2dP9N9o4W+FacXZopFHQiy0pBQT/Tzc4OvfWtwN4Ldvbjh/Z5DMnOMrOv7dG+/+YbKDYIsiibOXftH+9d
+ujr+CRTwEdhWy7oDIvSS7ZpCaohyBriPJgnlmiusao5gBXM8siF2iQr3kMkCpC1+B2iod1KUMw6A3hZJdq8he1BUZKI5F0XLUQ27cUsIeLwZIiUEfBK3q
BhnHfCBRFJottePjEI4lWyC4pHxQfyo50uiTQbm051R5e6bwtdrl658sy9WE/kRx32KD8aSIcDTXzBaAUOwmNwqAlUGMsFPS0CX4FIBSbgCDwJUXiKhxgP
cR7YKiSqmy5P+K50ySmqS5wQPt5UJCpIInTCiR89HvsmK+KcZn73yu9/e+3yRbupXcBfUy3QDwMRGN4G8gKD8lSqS3lR8+01IEeagIS9Hgbhyx1R98ga6g
5stWhaT/aNWLoJkRTGW7TKT0OeVvkw9ECrdB98Y4lUKh3vLvg2fFuwzjAfX2SYT2YY5mSGYd5G+wTtJtpujmFiaCfRvo1WQlveFK0ybygIpIEsfjxHWzYS
LEGzICJosrN7O2iThvJep2O4L6X+8NdHjj3pDBi2Ni8UVKXk5gbbRHdNBzU0dKgJl3Evx5szcoIdpTebM3qhFCXJYkLWjhjEE+cF9AuYBImQ8zlByRDPmv
Wk3nc/4Oob6LJBTk9iql4XQn0b5fS6L8LKx7QfdbhMTKxl6P9VPIXPEFUvKNbCdlFNbJpNp2NdvmTUfNuIy3C/QfvAx3B2H8Nl/Qy3L8Bwf0G7FGS4t/oZ
TggxXDzMcP4BhuuFamoQr61o06QYjOYGvdpNk0xwCMZgPOdD2bQ9OJGeYqe75UTNt4UTvjtwYmsox+e9Ta+FPRQXMs35QS/0uc5Ix+Bnt1TAGiqylanbRU
5OxtPJbuWk59trpt4mJ2/LhlRJNki5f4O8B6NVKkN7mOu8Db5veU33LBlnY7F0Kp2+C6/bfe/M68Zutcnbd2ryduWBvL2XLDk1GYuluizF1X1buPf2L16/
eO2DT2du/Hox888/XUb7PLN4az+3eCuD9iLaq9zMufNo76NtZikuxOvG5lTjvBc7duuW50K4WIKEsh7l3YJggkhfLTvU7MJ570UzntpSRbvIdq3asWwiHp
vs7sWx4duzIokv52/Vn84XTFLQNUnovNRD9//vCfivPYgFNv49wfPFpQ40lno5/HSrNZbS10nK270pgK6dHqzQSiiMrdVCx3NBOMzTSihMVOBxeAKOwFMQ
gziwPCR4SPIwWYVUdWv9XCusL4veJlwj26b+GY/Hptl0d4K17ttrao/cldreUg9tg3eD5BR7F2q3+94rtUea1O62lHybJoADFUjBFKTXWDyNLP4qD0/DMz
DTOUlDxtlZ05jNzAyzjWwMR3k4xsNxHr5WhRNthdxjs/Q/lDUky8aUbNIWT33YcyAvYxemmY+6JPpfH88GAw==
"""
*OLD, STORAGE = pickle.loads(zlib.decompress(base64.b64decode(HELD)))
NEW = [lambda params: altgrad.optim.SGD(params, lr=0.1, momentum=0.9, numerics="torch", max_grad_norm=1.0),
       lambda params: altgrad.optim.Muon(params, preset="kj", orthogonalize=altgrad.optim.NewtonSchulz(dtype=torch.float32)),
       lambda params: altgrad.optim.GridOptim(params, numerics="reference", seed=1),
       lambda params: altgrad.optim.NorMuon(params, orthogonalize=altgrad.optim.NewtonSchulz(red_dim="by_shape"), numerics="torch")]


def gradient(param, step):
    param.grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(step))


@pytest.mark.parametrize("held, make", list(zip(OLD, NEW)), ids=["SGD", "Muon", "GridOptim", "NorMuon"])
@pytest.mark.filterwarnings("error")
def test_an_older_pickle_and_an_older_file_go_on_with_the_same_bits(held, make):
    pickled, saved = held
    param, optimizer = pickle.loads(pickled)
    other = torch.nn.Parameter(param.detach().clone())
    resumed = make([other])
    assert optimizer.numerics == resumed.numerics and "profile" not in optimizer.__dict__
    resumed.load_state_dict(saved)
    says = lambda of: {key: value for key, value in of.param_groups[0].items() if key != "params"}
    assert says(optimizer) == says(resumed) and saved["param_groups"][0].keys() == resumed.state_dict()["param_groups"][0].keys()
    third, again = pickle.loads(pickle.dumps((other, resumed)))
    fourth, copied = copy.deepcopy((other, resumed))
    assert again.numerics == copied.numerics == resumed.numerics and getattr(again, "preset", 0) == getattr(resumed, "preset", 0)
    for step in range(2):
        for of, its in ((param, optimizer), (other, resumed), (third, again), (fourth, copied)):
            gradient(of, step)
            its.step()
    assert torch.equal(param, other) and torch.equal(param, third) and torch.equal(param, fourth)


@pytest.mark.filterwarnings("error")
def test_an_older_storage_is_read():
    assert pickle.loads(STORAGE) == altgrad.optim.Storage("m=bf16")


def test_an_older_model_has_its_history_of_magnitudes():
    """Its class lay in altgrad.ops._scales."""
    history = altgrad.quant.AmaxHistory(3)
    history.update(5.0)
    older = pickle.dumps(history, 0).replace(b"caltgrad.quant\n", b"caltgrad.ops._scales\n")
    assert older != pickle.dumps(history, 0)
    assert type(pickle.loads(older)) is altgrad.quant.AmaxHistory and pickle.loads(older).amax == 5
