"""Files of an earlier version, with states in few bits and beside masters, go on with the bits that it gave them.

The text is what altgrad wrote on 2026-11-29 before its core knew a step's states (5f5b0653), by torch.save of
{class: (its keywords, the parameter after two steps, state_dict(), SHA-256 of parameter and states after two more)}.
"""

import base64
import hashlib
import io
import lzma

import pytest
import torch

import altgrad

HELD = """
{Wp48S^xk9=GL@E0stWa8~^|S5YJf5<7~nW{#^hl61-q1=M9UfQZ*A>u6;qdx3e%a7_P;4<v6yXiQ42|nuy5#xFt0J`8Vw=rexWV6bArF7O%DbyRS-vrd7
VP4wS@dGAo_Hj|KGNQe4gNU!eZPelvzTpM(|!Mn*FqH0;Yj0aekL^#K|sXv)L*TdQ8@8^+0N+wSj6TDiS$L7|__V_AUVTg-}#!lT%1aI%tMMi(8)PSKZL#
x-L+NqcAySds(ih6`V<T-JsL4v#Q^Y5rhzLN#1tbrFUNL(|$pup~&5D)u69pvmS$$&2t($`FHIpM%bKBr(0O0iVpRED!r4723Uy-W4*1q@Yp6)D1HZIAx?
yf0t*UK(k*{N8m~*Ji4_ulgnyg)pA&!ertkdow2FXZ$itm+A@Tt7-DoT!l0XCh$<5t;OlIL4I@YEXW?NYj;07wohuhb^2VMZshy{_wJcd&EK{}uJ`|2ME{
HN3#r9fis^y_m2xT9(i{W?fg{88sS$jjL?3K$(ZVN&qTzU%F>d<w5!;4{lAJc%5?{z}fw6}^te<K2V#Z~M4e;7g_6rZDUrl<jbABnO357#nA%fwe)B-?qT
(a{W?<n~dq>^x27nN|jy2J`#0w$}a8QwS_hXOEod*hn`1*9>V>q!ewc{OuKTxip*~rV<??wo{JkrPgc>t#5(hQf`D|60;#t+F=EH1`JzHH_N=F$N;CKY=T
sonVc-Haf$gN#O?$PW?WNX=8*fH)^By-`z-M(s{6C7`2EfVIgKI{^CwfH0`0O%;ijv_if=GDnBgSPEu&RcS{{HKGd+9vn8+n?RwfBx`i+%*16q<kt)Y@r5
G$r6dwv{MQ76m(=}<n%JS)GxIXp2MyA)Nm;|BcgARAt5q^<TWf!8AeMSMrHd&6-aXEC8#9-2C=jDG}u6uftz85z()32G>%RP!x3MW`2rkg4zyR-5y<y%E)
1rm?e<rY^D(6FPo?pQUQkvw*Mwzj`PqlW^+@+(`SP{VVPDJ4>koJ^UfaB|=HlqqdSn<i4A>$k_)E7Spq7rAZBbA(m4#9h?%s^nB5}<%JOW*lXudju#3gh_
*;&wVzA$5V?d%43xErODioJ5puDn-u0GpIk)9<tqf-!GH(L&Jr1qr@1_G`vM?+(uVgPK;^wa%9G%&)>>D_eNo|BA9cP)+%V)7sHN*`XwihkYK6VfzG|Y7_
n*mM$t3qZVj!AY?6iiUinaQ1BY*=n=0ix7DHU5?MTv^(r>h$37pDQ|^u<Za;c6!z${|dU%3HjSD2S&7DD=T?hOKA^TyUZeaZMty01^&5)B94pVa^k`JqMr
Vft1jNm!gRIEm5%<Tm5$4d4(`L?dTs570+RZ`%>wn)?dk`?ijUPuta!6;5RgXoIch&wxo5mqgAx@fn^DQKPGJJI;=(+vxUZCvf<eY(K<%gTN0r?mf{aU@0
>EoubqpFg6Hwa~yPW?vn{!l#F2St%M|;Rn@m_C8(AB#jm_O!iE7NE}Dq^SgX#OvI$ioyz+`FoQcQx9b(hkIVP&818R7?Pz`(mPC!>;rSvqMS^8WDTQL*?5
x56WGsioWdTMyk=9xl5R<Vi@fzpm}jT>xzKLwRSNi5|hMfFU$KSut4<k1xTd*<MIlyeY=hN2r0|cR!%(<u|Z_YkdwYHNL>s%6iLS>oD5KdU!^{K^{3g0tk
KmL3-SrzKtXPW6}{6u?#O<pTONG)#jPmq$8=taWlbEYMSr<!$p1oLay^kI-K@4Lv0NB08X;8TvfeUu1U!S2IEuS6D09%xyyqlbY<umKtxIrMJ0v(&F!)6E
Nt4{#BctBiNZYB79lAM3d}%&7-NAsRP9YBivQqJC$upQ?sI%^wpCgIG2+OrvU|l+LS?!5SPbpVB1G7ak<g5-KJ6tW<70ni1c9mn@6Y;P$CyA!t`GJJZ4L?
7qk0U*~LDKA8Wz0nw78#6i=76VVU!F-4DNW%ni<#Qk9Xi+m+GZhAla*9RU?TG^(&JN<3055ApfvSI+mii%y2gQE9cq!W4`aahe#9L(Z*PlgsW>e6@Z5U+O
mLF&s?W$Y(tCue1R^HD{u&vZu^Tq4aj{z5uqwotP6^dje?}vgBLS!5P*?CWTB%BLv+t*FYbX`(pzJtpo&gQ^{vq9U$o-Y7qHBT&;E!`RJ;+}+q}4!4b-L5
&^2Asd#?B`jhA+s~;R9rq_}L!y4@)TeP$Z0%aU>Ane#`HcPQ5ZgKA)RCXGj63_hP?nhpd_3$DE7!^*dD_KdRR+IKQQQ@}_x@#FKu9Xo3oVG=|Or;`XhesK
6qM9|o2On2OwcMfrm6pUeqlHZLp<yXfbRXh=!Up*0f>L1Sox?ka^ma&+}{u7y7HrCh%8<bvBAQ^cb>mL2Q6P$@T$+y<6loICBoF#xLG;?Lo1#MM(d_DWMQ
9ZYndTMyfExfRxvYN7|;I%z*uRm&O`1u@X@YSGerIgdNsMF;tzc;|<-n6-zY2<^2Dkk9m2iFLNyq;)*tTEI5+c>}+Uvwho(;U9fy*<+|2iBi5WQI!Q1=FD
(ffQD12XhHR_sg?G^H!nza8rhq3Ozeg!gObsB3`Srvp)N~5bMk6<%msTa?0})eFrE9AbbInNy{IjHWU>uMUEH>S1Ajoqux!yUj4VNry!lhH!>Qe+DkzFI_
<W-5@aLdA&)Q(EEK#sOG^5W@?GvCU=Xv1pSxxr1DW27EXYORj{qAlI!4Pt;Q&ShB0T2y-gtWrDqrA_BfSvV$HWA+Uv|x4Wh?pHx&u6D$6+Bzi78Xuk%*JZ
y9U%s%X08KhM!mLltnEMMno38)xVcEyCwqJ*=&+I5M@(dkLebY@k~1L;b(7!1X>!lI%LXgaug^-i7Jqr9<&lALME4`lTy#cm9Xbjkr|5R<<~vkfEq5fAf%
j5OWJ#%Wth5iQTc|q?XbT@&rDqz}2$nA*C4nt+*=@7xbIBP9^pA=wSy>l0`lN7kdCR*MV$)RTcg&IC;7t!+iz}<2m=v;d${X5z;8&Cy0*E<zeXg|gQ7Qxx
pU-1{{jmuc*!gBPdGd8ecT#&6YEG}CH6Bmv6x2dUo!lzQ&5sc6AYJ(GqNo9g5b4>Py8v%&d3OA0q|{-issaf$IlnO{q@ObE@NLc0oSfK12j-KKqhBll=?-
%clE|nL(|g_ifA-yh9`{UxXrAVZ`|?3Wb4Z-p1|HaO<NJNFxX66L1A%M}w&hzuxd|z`Q}7_bc7l<F)O64uL{m5yv3C(*)GZ<e`n=na>|O&C9!$_N#bDvsp
Zeq+`>Ah;xPU3*dqb)k^jR+NSN0R%#wLkZZ{vuO9o|)zy=lqUu<7zLtywjLbPDNg>J&*u`2qL><DYiZfK}8VON8d=lNIjwdsBmIV$kM`he7zJF7jV;M<??
dDR!PVPWypbtKq|lnd@7eX{rkEX%ZsCKrUStB<M(FN>IZ0^rN~h*uQ}L<;4fHdw`g}f9OeG;&=6$lPiRZievCXxwLSn;j#{N_w05aQ_JbuxkDk`xO5ue8_
k!lQAS+&_Q|#hf*2PR4|-dRWB>`8mkiVQQYRZuiAYqZHmcr5Js_RCXv4%Uvi54crf38$=^Rc5wyV+_esdETZc@W#uQxSqSk%e>Y3R-jUPNkrQV%0H!3iX!
L*C$&O7toI<2+TlfAm>YX9T*`V8+&X!-i@<nrlfme#m4BMnb$oOq4o;u!uu%R}6*5ZNn7<_L|rgmso)CuAFatC!4X5WXx8O{(lH@AudvJR<8d>q9nRKE?-
LtIW-1-JCZDnkuOY5ih4ne9&%jCVr%FsBu<w<Q|CCq4-3Yp+2);!QJt=-S!@-=jT@_o4}QIF5bEJaug2Y(C$cfMs_Zf%`$}T)FuGf~yG>kIt=W?+j3manO
94aFG|vw5{s}Vhzg`4H{j=%5OLHl*gwY44R>uoO|CKfN9_iLu>aa22G^H*M6AHgV`SiD&_hY>X@@M5q)jilRD5s8^b$MCvd87GHEwdl577Vu%;oYLV`$jl
%dP4ttyMxwOuo8W#k!U+=iZublkyG(ZcAr~`LJVgq<#ZiV1rs{A;uobCPAvbK2=5lVD#?h7mO~&8U;;YH`2pR0Bf>i4%r1^dxwM`&x_OEO^xc;z1}j!%{+
^{R)=Mx~w1}Em1Iw?$tM^<30HsYA`jl&Tv@(r^IIw(#yFe$guigqZ-4P(_i->7o{zLnCz^x7221eqRTj`+`o+wJY>rcgApcG3{DGfwY1atRkGIvHj=cnJn
IjJ1f8`&vv@|WqUV4My;_3vpR>60R>m*3l=e8Ou}$Z&L#_ECs8!2%y;wKD?7FAlWkZXC!u-8q6nf=pBDF@NXFn!Du3OT+nUC3`#?_FBiDk;kHg^hllcT(d
t$fXJMTrd1tPB>}t_{k1X`-u+)O>PnZ8(f?zJ2>kr7_VRt5>7ZrZnH}po#k0EGb-L@86zDR3;z_3TdykT@vJAsf!kzJiUR%f2;JnfiP#6#Hr$|}v5%Bv$O
U(1ZAEe5h+dz>-r?G#G;F!o+q52x*v7HeT4aIC0@5N4H#JAh^7yW}Y7)dnG=j6I}mmqdel+CRJ|7RGEe2bJ2c@52UH?Byo9|mXn-DzOFdgHIA7pfilN9G5
QCLu|W`pECBw(2zJTThczlZH-gMOdUevH$=8natAI2d+2_00EjD!`Tf0VXC%?vBYQl0ssI200dcD
"""
FILES = torch.load(io.BytesIO(lzma.decompress(base64.b85decode(HELD.replace("\n", "")))))


def step(param, optimizer, number):
    param.grad = (((torch.arange(4160) * (number + 3)) % 4 - 1.5) / 8).to(param.dtype).view(65, 64)
    optimizer.step()


def digest(param, optimizer):
    found = hashlib.sha256()
    for key, value in [("", param.detach()), *sorted(optimizer.state[param].items())]:
        found.update(key.encode() + value.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore:.*stands still")
def test_an_older_file_goes_on_with_the_same_bits(name):
    kwargs, value, saved, expected = FILES[name]
    param = torch.nn.Parameter(value)
    optimizer = getattr(altgrad.optim, name.strip())([param], lr=0.125, **kwargs)
    optimizer.load_state_dict(saved)
    assert digest(param, optimizer) != expected
    for number in (2, 3):
        step(param, optimizer, number)
    assert digest(param, optimizer) == expected
