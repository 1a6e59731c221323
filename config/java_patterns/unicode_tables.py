"""Properties of Unicode 13 that Python does not know, and its scripts.

Made by `python -m tests.oracle.java_patterns --tables`. A text has ranges of code points, as numbers to the base 36: the
distance from the end of the range before, and behind a plus sign the length less one.
Source: Java 17, Character.isAlphabetic, Character.isIdeographic, Character.UnicodeScript.
"""

from __future__ import annotations

from typing import Final

PROPERTIES: Final = {
    "Alphabetic": (
        "1t+p 7+p 1c b 5 6+m 2+u 2+cp 5+b f+4 8 2 2f 17+4 2+1 3+3 2 7 2+2 2 2+j 2+2a 2+3u 9+4l 2+11 3 7+14 14+d 2 2+1 "
        "2+1 2 9+q 5+3 u+a 6+1j 2+6 f+2t 2+7 5+7 5+2 b+2 3 h+1b e+2s p+w a+1 5 6+n 3+i k+o 8+a 1i+k 2+h d+b 4+6 7+23 "
        "2+f 2+2 5+e e+i 2+7 3+1 3+l 2+6 2 4+3 4+7 3+1 3+1 2 9 5+1 2+4 d+1 b 5+2 2+5 5+1 3+l 2+6 2+1 2+1 2+1 5+4 5+1 "
        "3+1 5 8+3 2 i+5 c+2 2+8 2+2 2+l 2+6 2+1 2+4 4+8 2+2 2+1 4 g+3 m+3 5+2 2+7 3+1 3+l 2+6 2+1 2+4 4+7 3+1 3+1 "
        "a+1 5+1 2+4 e h+1 2+5 4+2 2+3 4+1 2 2+1 4+1 4+2 4+b 5+4 4+2 2+2 4 7 15+3 2+7 2+2 2+m 2+f 4+7 2+2 2+2 9+1 2+2 "
        "6+3 t+3 2+7 2+2 2+m 2+9 2+4 4+7 2+2 2+2 9+1 8 2+3 e+1 e+c 2+2 2+14 3+7 2+2 2+2 2 6+3 8+4 n+5 2+2 2+h 4+n 2+8 "
        "2 3+6 9+5 2 2+7 j+1 e+1l 6+6 7 1g+1 2 2+4 2+n 2 2+i 2+2 3+4 2 7 f+3 x 1s+7 2+z 5+g 7+f 2+z 1w+1i 2 3+4 h+1r "
        "b+3 3+11 2 6 3+16 2+98 2+3 3+6 2 2+3 3+14 2+3 3+w 2+3 3+6 2 2+3 3+e 2+1k 2+3 3+1u 12+f h+2d 3+5 4+h7 3+g 2+p "
        "6+22 4+a 8+c 2+5 d+j d+j d+c 2+2 2+1 d+1f 3+i f 5 1w+2g 8+16 6+1x b+u 2+b 5+8 o+t 3+4 c+17 5+p 1j+r 5+1q 3+j "
        "1f o+1 1s+1f 2+e 2+6 1h+15 3+3 b+17 2+a f+1i n+2 b+z 3+8 8+16 3+2 16+3 2+5 2+1 4 6+5b 14+d c+7p 3+5 3+11 3+5 "
        "3+7 2 2 2 2+u 3+1g 2+6 2 4+2 2+6 4+3 3+5 5+c 6+2 2+6 39 e h+c 2u 5 3+9 2 4+4 7 2 2 2+3 2+a 3+3 6+4 5 i+14 "
        "mm+1f 1ef+1a 2+1a 2+3o 7+3 4+1 d+11 2 6 3+1j 8 h+m a+6 2+6 2+6 2+6 2+6 2+6 2+6 2+6 2+v 1c d2+2 q+8 8+4 3+4 "
        "5+2d 7+2 2+2h 2+3 6+16 2+2l i+v 1d+f e9+533 1t+g70 4+wc 1w+19 3+7g 4+f b+1 l+1a 6+7 4+34 14+8 3+2u 3+1g 3+8 "
        "17+g 2+w p+1f d+1v 2 19+5 4 2+2 b+w 6+y e+s 4+1e 2+b g h+f b+4 2+1i a+d j+m 4+1w 2 2 p+2 3+f 3+3 c+5 3+5 3+5 "
        "a+6 2+6 2+16 2+d 7+3e m+8mb d+m 5+1c 6it+a5 3+2x 13+6 d+4 6+b 2+c 2+4 2 2+1 2+1 2+2z y+a2 j+1r 3+1h 15+b "
        "39+4 2+3q 11+p 7+p c+2g 4+5 3+5 3+5 3+2 10+b 2+p 2+i 2+1 2+e 3+d z+3e 1y+1g 7g+s 4+1c 1c+v e+t 6+16 6+t 3+z "
        "5+7 2+4 17+4d j+z 5+z 5+13 9+1f 4d+8m a+l b+7 49+5 3 2+17 2+1 4 3+m b+m a+u 1u+i 2+1 b+l b+p 1z+1j 7+1 1t+3 "
        "2+1 6+7 2+2 2+s 17+s 4+s 10+7 2+r s+1h b+l b+i e+h 33+20 1k+1e e+1e e+13 9l+15 2+1 4+1 27+s b 9+l 2z+k s+m "
        "a+1x 1p+1i o+o o+1e i+3 9+y 4 a+1r 2+3 a+1 b 2 10+h 2+x 3 7 1u+6 2 2+3 2+e 2+9 8+1k o+3 2+7 3+1 3+l 2+6 2+1 "
        "2+4 4+7 3+1 3+1 4 7 6+6 4d+1t 2+2 2+3 l+2 v+1t 3+1 2 55+1h 3+6 q+5 z+1q 2 4 1o+1h 3 20+q 3+d 5y+1k 2w+1r w+7 "
        "3 3+7 2+1 2+t 2+1 3+1 3+3 2m+7 3+19 3+5 2 2+1 s+1e 3+9 i+1z 6 z+1k 7c+8 2+18 2+6 2 1e+t 3+l 2+d 22+6 2+1 "
        "2+17 4 2+1 2+2 2 3+1 p+5 2+1 2+10 2+1 2+3 2 94+m 56 28+pl 2v+32 i+5f 24d+tq 34i+g6 6nu+fs 8+u 36+t j+1b h+3 "
        "w+k 6+i j5+1r 3l+22 5+1k 8+g 1t+1 2 d+1 f+4qf 9+yd 17+8 6wo+7y 1e+2 i+3 9+az 1s5+2y 6+c 4+8 8+9 5 4ma+2c "
        "2+1y 2+1 3 3+1 3+3 2+b 2 2+6 2+1s 2+3 3+7 2+6 2+r 2+3 2+4 2 4+6 2+9f 3+o 2+o 2+u 2+o 2+u 2+o 2+u 2+o 2+u 2+o "
        "2+7 1md+6 2+g 3+6 2+1 2+4 5y+18 b+6 h aa+17 105+5g 1o+1v 4 4 xh+3 2+q 2+1 2 3 2+9 2+3 2 2 7 5 2 2 2+2 2+1 2 "
        "3 2 2 2 2 2+1 2 3+3 2+6 2+3 2+3 2 2+9 2+g 6+2 2+4 2+g hh+p 7+p 7+p 2uv+wyl z+378 c+65 3+4g1 f+5rk 2e8+f1 "
        "15v+3t6"
    ),
    "Ideographic": (
        "9hi+1 q+8 f+2 qu+533 1t+g70 hl0+a5 3+2x n4b s+4qf 9+yd 17+8 76w+az f7p+wyl z+378 c+65 3+4g1 f+5rk 2e8+f1 "
        "15v+3t6"
    ),
}
SCRIPTS: Final = {
    "COMMON": (
        "0+1s r+5 r+1a 2+e 2+4 o w ci+12 6+4 3+j 39 a 7 2 hq 7 f 4 x 4d ed 3m+1 yi ba+3 83 168+2 20+1 5o+1 2 y6 e 8+3 "
        "2+5 2+2 3 li+b 3+2e 2+a 4+a 2+e i+v 1t+11 2+2 3+5 2+q 2+g 16+2 5+ie q+a m+pr 75+hf 3+v 2+2w e9+2a bi+b 5+4 2 "
        "2+o g+7 5+3 2k+1 4 2j+1 44+f x+z 1p+1r w+28 1c 2h+4n 535+1r hkx+x 2v+2 4m+9 6t 4h b0 f+1 g5v+1 5t+9 n+y 2+i "
        "2+3 44 2+v r+5 r+a b 1a+1 1t+6 2+6 b+4 77+2 5+18 4+8 29+c 1g+18 6d+q lif+1 f5p+3 3tp+6t b+12 3+1p 4+g 9+1 "
        "8+t 5+1m 6w+j d+2e a+o 3s+2c 2+1y 2+1 3 3+1 3+3 2+b 2 2+6 2+1s 2+3 3+7 2+6 2+r 2+3 2+4 2 4+6 2+9f 3+83 3+1d "
        "41e+1v 25+1o jn+17 5+2r d+e 3+e 2+e 2+10 b+4t 1l+p 2+1 e+17 5+8 8+1 f+5 4b+rb 9+c 4+c 4+37 d+2g 8+b l+b 5+1j "
        "9+9 7+13 9+t 3+1 27+3c 2+29 2+3q d+d 3+4 4+2 6+6 a+o 8+6 a+2 e+6 16+42 2+1i 12+9 gvm0 v+2n"
    ),
    "LATIN": (
        "1t+p 7+p 1c g 6+m 2+u 2+cg 14+4 55o+11 7+1c 6+3 6+c 2+1x 1u+73 aa e h+c 3y+1 7 s i+14 254+v o83+2t 4+1g 3+8 "
        "17+a mp+16 2+8 2+3 fpz+6 t7+p 7+p"
    ),
    "GREEK": (
        "og+3 2+2 3+3 2 5 2 2+2 2 2+j 2+1q f+f 4yv+4 1f+4 5+4 2d 8x+l 3+5 3+11 3+5 3+7 2 2 2 2+u 3+1g 2+e 2+d 3+5 2+i "
        "3+2 2+8 88 rb3 gyj+26 i 155s+1x"
    ),
    "CYRILLIC": "sg+3o 3+4o 4lt+8 4j 25 38o+v nr5+2n han+1",
    "ARMENIAN": "10x+11 3+1d 3+2 1chw+4",
    "HEBREW": "13l+1i 9+q 5+5 1cfd+p 2+4 2 2+1 2+1 2+9",
    "ARABIC": (
        "16o+4 2+5 2+d 2 2 2+v 2+9 c+p 2+2z 2+x 29+1b 81+k 2+h c+e 2+s 1bv5+35 i+a2 j+1r 3+1h 15+d 37+4 2+3q 31g+u "
        "185e+3 2+q 2+1 2 3 2+9 2+3 2 2 7 5 2 2 2+2 2+1 2 3 2 2 2 2 2+1 2 3+3 2+6 2+3 2+3 2 2+9 2+g 6+2 2+4 2+g 1h+1"
    ),
    "SYRIAC": "1ds+d 2+1n 3+2 7l+a",
    "THAANA": "1hc+1d",
    "DEVANAGARI": "1s0+28 5+e 3+p vhd+v",
    "BENGALI": "1vk+3 2+7 3+1 3+l 2+6 2 4+3 3+8 3+1 3+3 9 5+1 2+4 3+o",
    "GURMUKHI": "1z5+2 2+5 5+1 3+l 2+6 2+1 2+1 2+1 3 2+4 5+1 3+2 4 8+3 2 8+g",
    "GUJARATI": "22p+2 2+8 2+2 2+l 2+6 2+1 2+4 3+9 2+2 2+2 3 g+3 3+b 8+6",
    "ORIYA": "269+2 2+7 3+1 3+l 2+6 2+1 2+4 3+8 3+1 3+2 8+2 5+1 2+4 3+h",
    "TAMIL": "29u+1 2+5 4+2 2+3 4+1 2 2+1 4+1 4+2 4+b 5+4 4+2 2+3 3 7 f+k 1ih2+1d e",
    "TELUGU": "2dc+c 2+2 2+m 2+f 4+7 2+2 2+3 8+1 2+2 6+3 3+9 8+8",
    "KANNADA": "2gw+c 2+2 2+m 2+9 2+4 3+8 2+2 2+3 8+1 8 2+3 3+9 2+1",
    "MALAYALAM": "2kg+c 2+2 2+1e 2+2 2+5 5+f 3+p",
    "SINHALA": "2o1+2 2+h 4+n 2+8 2 3+6 4 5+5 2 2+7 7+9 3+2 1fcd+j",
    "THAI": "2rl+1l 6+r",
    "LAO": "2v5+1 2 2+4 2+n 2 2+m 3+4 2 2+5 3+9 3+3",
    "TIBETAN": "2yo+1z 2+z 5+12 2+z 2+e 2+6 5+1",
    "MYANMAR": "35s+4f u9t+u 2q+v",
    "GEORGIAN": "3a8+11 2 6 3+16 2+3 2a9+16 3+2 37l+11 2 6",
    "HANGUL": "3cw+73 5yn+1 76+2l 36+u 1u+u nhe+s hw+8mb d+m 5+1c 7tx+u 4+5 3+5 3+5 3+2",
    "ETHIOPIC": (
        "3k0+20 2+3 3+6 2 2+3 3+14 2+3 3+w 2+3 3+6 2 2+3 3+e 2+1k 2+3 3+1u 3+v 4+p 547+m a+6 2+6 2+6 2+6 2+6 2+6 2+6 "
        "2+6 opv+5 3+5 3+5 a+6 2+6"
    ),
    "CHEROKEE": "3vk+2d 3+5 twz+27",
    "CANADIAN_ABORIGINAL": "3y8+hr fl+1x",
    "OGHAM": "4g0+s",
    "RUNIC": "4gw+22 4+a",
    "KHMER": "4n4+2l 3+9 7+9 dj+v",
    "MONGOLIAN": "4qo+1 3 2+8 2+9 7+2g 8+16 1e46+c",
    "HIRAGANA": "9j5+2d 7+2 23qa+7x 1e+2 cry",
    "KATAKANA": "9lt+2h 3+2 6p+f 5t+1a 2+2f 14b3+9 2+18 yub 9w+3",
    "BOPOMOFO": "kq+1 93u+16 35+v",
    "HAN": "96o+p 2+2g d+5x 1c 2 q+8 f+3 qt+533 1t+g70 hl0+a5 3+2x n4n+1 sgf+wyl z+378 c+65 3+4g1 f+5rk 2e8+f1 15v+3t6",
    "YI": "vls+wc 4+1i",
    "OLD_ITALIC": "1f5s+z a+2",
    "GOTHIC": "1f74+q",
    "DESERET": "1fcw+27",
    "INHERITED": (
        "lc+33 7q+1 cl+a r kh+3 3fg+g eo+2 2+c 2+6 5 7 4+1 5j+1l 2+4 el+1 5f+w 30a+3 30+1 14km+f h+d r4 6b 38b 11kc+2 "
        "i+7 3+6 v+3 h45v+6n"
    ),
    "TAGALOG": "4jk+c 2+6",
    "HANUNOO": "4kg+k",
    "BUHID": "4lc+j",
    "TAGBANWA": "4m8+c 2+2 2+1",
    "LIMBU": "4xs+u 2+b 5+b 5 4+b",
    "TAI_LE": "500+t 3+4",
    "LINEAR_B": "1ekg+b 2+p 2+i 2+1 2+e 3+d z+3e",
    "UGARITIC": "1f9c+t 2",
    "SHAVIAN": "1ff4+1b",
    "OSMANYA": "1fgg+t 3+9",
    "CYPRIOT": "1g5c+5 3 2+17 2+1 4 3",
    "BRAILLE": "7wg+73",
    "BUGINESE": "54w+r 3+1",
    "COPTIC": "rm+d 80h+37 6+6",
    "NEW_TAI_LUE": "51c+17 5+p 7+a 4+1",
    "GLAGOLITIC": "8ow+1a 2+1a 2e1u+6 2+g 3+6 2+1 2+4",
    "TIFINAGH": "8xc+1j 8+1 f",
    "SYLOTI_NAGRI": "x6o+18",
    "OLD_PERSIAN": "1fa8+z 5+d",
    "KHAROSHTHI": "1gjk+3 2+1 6+7 2+2 2+s 3+2 5+9 8+8",
    "BALINESE": "5c0+23 5+18",
    "CUNEIFORM": "1kw0+pl 2v+32 2+4 c+5f",
    "PHOENICIAN": "1gcg+r 4",
    "PHAGS_PA": "x8g+1j",
    "NKO": "1j4+1m 3+2",
    "SUNDANESE": "5fk+1r 75+7",
    "BATAK": "5hc+1f 9+3",
    "LEPCHA": "5j4+1j 4+e 4+2",
    "OL_CHIKI": "5lc+1b",
    "VAI": "wlc+8b",
    "SAURASHTRA": "xa8+1x 9+b",
    "KAYAH_LI": "xds+19 2",
    "REJANG": "xf4+z c",
    "LYCIAN": "1f28+s",
    "CARIAN": "1f34+1c",
    "LYDIAN": "1gdc+p 6",
    "CHAM": "xkw+1i a+d 3+9 3+3",
    "TAI_THAM": "55s+1q 2+s 3+a 7+9 7+d",
    "TAI_VIET": "xog+1u p+4",
    "AVESTAN": "1gqo+1h 4+6",
    "EGYPTIAN_HIEROGLYPHS": "1o1s+tq 2+8",
    "SAMARITAN": "1kw+19 3+e",
    "MANDAIC": "1mo+r 3",
    "LISU": "wk0+1b o8h",
    "BAMUM": "www+2f 124p+fs",
    "JAVANESE": "xhc+25 3+9 5+1",
    "MEETEI_MAYEK": "xr4+m 5m+19 3+9",
    "IMPERIAL_ARAMAIC": "1g74+l 2+8",
    "OLD_SOUTH_ARABIAN": "1gm8+v",
    "INSCRIPTIONAL_PARTHIAN": "1gsg+l 3+7",
    "INSCRIPTIONAL_PAHLAVI": "1gtc+i 6+7",
    "OLD_TURKIC": "1gxs+20",
    "BRAHMI": "1hq8+25 5+t g",
    "KAITHI": "1hts+1t c",
    "MEROITIC_HIEROGLYPHS": "1gg0+v",
    "MEROITIC_CURSIVE": "1ggw+n 5+j 3+19",
    "SORA_SOMPENG": "1hw0+o 8+9",
    "CHAKMA": "1hxc+1g 2+h",
    "SHARADA": "1i0w+2n",
    "TAKRI": "1j0g+1k 8+9",
    "MIAO": "20hs+22 5+1k 8+g",
    "CAUCASIAN_ALBANIAN": "1flc+1f c",
    "BASSA_VAH": "1zo0+t 3+5",
    "DUPLOYAN": "2fpc+2y 6+c 4+8 8+9 3+3",
    "ELBASAN": "1fk0+13",
    "GRANTHA": "1ibk+3 2+7 3+1 3+l 2+6 2+1 2+4 3+8 3+1 3+2 3 7 6+6 3+6 4+4",
    "PAHAWH_HMONG": "1zpc+1x b+9 2+6 2+k 6+i",
    "KHOJKI": "1i4g+h 2+17",
    "LINEAR_A": "1fr4+8m a+l b+7",
    "MAHAJANI": "1hzk+12",
    "MANICHAEAN": "1gow+12 5+b",
    "MENDE_KIKAKUI": "2oe8+5g 3+f",
    "MODI": "1iww+1w c+9",
    "MRO": "1zk0+u 2+9 5+1",
    "OLD_NORTH_ARABIAN": "1gn4+v",
    "NABATAEAN": "1g8w+u 9+8",
    "PALMYRENE": "1g80+v",
    "PAU_CIN_HAU": "1juo+1k",
    "OLD_PERMIC": "1f80+16",
    "PSALTER_PAHLAVI": "1gu8+h 8+3 d+6",
    "SIDDHAM": "1itc+1h 3+11",
    "KHUDAWADI": "1i9c+1m 6+9",
    "TIRHUTA": "1im8+1z 9+9",
    "WARANG_CITI": "1jfk+2a d",
    "AHOM": "1j40+q 3+e 5+f",
    "ANATOLIAN_HIEROGLYPHS": "1s00+g6",
    "HATRAN": "1gbk+i 2+1 6+4",
    "MULTANI": "1i80+6 2 2+3 2+e 2+a",
    "OLD_HUNGARIAN": "1h1c+1e e+1e 8+5",
    "SIGNWRITING": "2l8g+i3 g+4 2+e",
    "ADLAM": "2olc+23 5+9 5+1",
    "BHAIKSUKI": "1k3k+8 2+18 2+d b+s",
    "MARCHEN": "1k6o+v 3+l 2+d",
    "NEWA": "1iio+2j 2+4",
    "OSAGE": "1fhs+z 5+z",
    "TANGUT": "20o0 w+4qf 9+lb e9+8",
    "MASARAM_GONDI": "1kao+6 2+1 2+17 4 2+1 2+8 9+9",
    "NUSHU": "20o1 cy7+az",
    "SOYOMBO": "1jrk+2a",
    "ZANABAZAR_SQUARE": "1jpc+1z",
    "HANIFI_ROHINGYA": "1h4w+13 9+9",
    "OLD_SOGDIAN": "1hj4+13",
    "SOGDIAN": "1hkg+15",
    "DOGRA": "1jb4+1n",
    "GUNJALA_GONDI": "1kdc+5 2+1 2+10 2+1 2+5 8+9",
    "MAKASAR": "1ko0+o",
    "MEDEFAIDRIN": "20cg+2i",
    "ELYMAIC": "1hpc+m",
    "NANDINAGARI": "1jmo+7 3+19 3+a",
    "NYIAKENG_PUACHUE_HMONG": "2n0g+18 4+d 3+9 5+1",
    "WANCHO": "2ncw+1l 6",
    "YEZIDI": "1hfk+15 2+2 3+1",
    "CHORASMIAN": "1ho0+r",
    "DIVES_AKURU": "1ji8+6 3 3+7 2+1 2+t 2+1 3+b a+9",
    "KHITAN_SMALL_SCRIPT": "20o4 5cs+d1",
}
