"""Texts of many languages in the encodings of old pages, and the labels of the Encoding Standard."""

# ruff: noqa: RUF001 - other scripts have letters that look like Latin ones

# By language: a text and its encodings, named by their labels in the standard. Python knows these labels, too.
TEXTS = {
    "russian": (
        "windows-1251 koi8-r iso-8859-5 ibm866",
        "Вчера вечером в городе прошёл сильный дождь, и жители долго не могли вернуться домой. Городская администрация сообщила, что ремонт дороги начнётся в понедельник утром.",
    ),
    "ukrainian": (
        "windows-1251 koi8-u",
        "Учора ввечері в місті пройшов сильний дощ, і мешканці довго не могли повернутися додому. Міська рада повідомила, що ремонт дороги почнеться в понеділок уранці.",
    ),
    "bulgarian": (
        "windows-1251",
        "Снощи в града валя силен дъжд и жителите дълго не можеха да се приберат у дома. Общината съобщи, че ремонтът на пътя ще започне в понеделник сутринта.",
    ),
    "polish": (
        "windows-1250 iso-8859-2",
        "Wczoraj wieczorem w mieście spadł silny deszcz i mieszkańcy długo nie mogli wrócić do domu. Urząd miasta ogłosił, że remont drogi rozpocznie się w poniedziałek rano.",
    ),
    "czech": (
        "windows-1250 iso-8859-2",
        "Včera večer ve městě silně pršelo a obyvatelé se dlouho nemohli vrátit domů. Městský úřad oznámil, že oprava silnice začne v pondělí ráno.",
    ),
    "hungarian": (
        "windows-1250 iso-8859-2",
        "Tegnap este erős eső esett a városban, és a lakók sokáig nem tudtak hazamenni. Az önkormányzat közölte, hogy az út javítása hétfő reggel kezdődik.",
    ),
    "romanian": (
        "windows-1250 iso-8859-2",
        "Aseară a plouat puternic în oraş, iar locuitorii nu au putut ajunge acasă multă vreme. Primăria a anunţat că repararea drumului începe luni dimineaţă.",
    ),
    "croatian": (
        "windows-1250 iso-8859-2",
        "Sinoć je u gradu pala jaka kiša i stanovnici se dugo nisu mogli vratiti kući. Gradska uprava je objavila da će popravak ceste početi u ponedjeljak ujutro.",
    ),
    "greek": (
        "windows-1253 iso-8859-7",
        "Χθες το βράδυ έβρεξε πολύ στην πόλη και οι κάτοικοι άργησαν να γυρίσουν στο σπίτι. Ο δήμος ανακοίνωσε ότι η επισκευή του δρόμου θα αρχίσει τη Δευτέρα το πρωί.",
    ),
    "turkish": (
        "windows-1254",
        "Dün akşam şehirde şiddetli yağmur yağdı ve insanlar uzun süre evlerine dönemedi. Belediye, yol onarımının pazartesi sabahı başlayacağını açıkladı.",
    ),
    "hebrew": (
        "windows-1255 iso-8859-8",
        "אתמול בערב ירד גשם חזק בעיר והתושבים לא הצליחו לחזור הביתה במשך זמן רב. העירייה הודיעה כי תיקון הכביש יתחיל ביום שני בבוקר.",
    ),
    "arabic": (
        "windows-1256 iso-8859-6",
        "هطلت أمس أمطار غزيرة على المدينة ولم يتمكن السكان من العودة إلى بيوتهم وقتا طويلا. وأعلنت البلدية أن إصلاح الطريق سيبدأ صباح يوم الاثنين.",
    ),
    "lithuanian": (
        "windows-1257 iso-8859-13",
        "Vakar vakare mieste smarkiai lijo ir gyventojai ilgai negalėjo grįžti namo. Savivaldybė pranešė, kad kelio remontas prasidės pirmadienio rytą.",
    ),
    "latvian": (
        "windows-1257 iso-8859-4",
        "Vakar vakarā pilsētā stipri lija, un iedzīvotāji ilgi nevarēja atgriezties mājās. Pašvaldība paziņoja, ka ceļa remonts sāksies pirmdienas rītā.",
    ),
    "estonian": (
        "windows-1257 iso-8859-15",
        "Eile õhtul sadas linnas tugevat vihma ja elanikud ei saanud kaua koju tagasi. Linnavalitsus teatas, et tee remont algab esmaspäeva hommikul.",
    ),
    "japanese": (
        "shift_jis euc-jp iso-2022-jp",
        "昨日の夜、町では強い雨が降り、住民は長い間家に帰ることができませんでした。市役所は、道路の工事が月曜日の朝に始まると発表しました。",
    ),
    "chinese": (
        "gbk",
        "昨天晚上城里下了大雨，居民们很久都不能回家。市政府宣布，道路维修将于星期一早上开始。",
    ),
    "taiwanese": (
        "big5",
        "昨天晚上城裡下了大雨，居民們很久都不能回家。市政府宣布，道路維修將於星期一早上開始。",
    ),
    "korean": (
        "euc-kr",
        "어제 저녁 도시에 많은 비가 내려 주민들은 오랫동안 집에 돌아가지 못했다. 시청은 도로 공사가 월요일 아침에 시작된다고 발표했다.",
    ),
    "thai": (
        "tis-620",
        "เมื่อวานตอนเย็นฝนตกหนักในเมืองและชาวบ้านกลับบ้านไม่ได้เป็นเวลานาน เทศบาลแจ้งว่าการซ่อมถนนจะเริ่มในเช้าวันจันทร์ ห้องสมุดบนถนนสายหลักจะเปิดถึงสองทุ่ม และเด็กยังเข้าชมได้โดยไม่เสียค่าใช้จ่าย",
    ),
    "german": (
        "windows-1252",
        "Gestern Abend hat es in der Stadt stark geregnet, und viele Bürger konnten lange nicht nach Hause zurückkehren.",
    ),
    "french": (
        "windows-1252",
        "Hier soir, une forte pluie est tombée sur la ville et les habitants n’ont pas pu rentrer chez eux pendant longtemps.",
    ),
    "spanish": (
        "windows-1252",
        "Anoche cayó una fuerte lluvia en la ciudad y los vecinos no pudieron volver a casa durante mucho tiempo.",
    ),
    "portuguese": (
        "windows-1252",
        "Ontem à noite caiu uma chuva forte na cidade e os moradores não puderam voltar para casa durante muito tempo.",
    ),
    "swedish": (
        "windows-1252",
        "I går kväll regnade det kraftigt i staden och invånarna kunde länge inte ta sig hem. Kommunen meddelade att vägen börjar repareras på måndag morgon.",
    ),
}

# By encoding: Python's codec, a word in it, and all labels of the encoding.
LABELS = {
    "utf-8": (
        "utf-8",
        "é",
        "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    ),
    "ibm866": (
        "cp866",
        "привет",
        "866 cp866 csibm866 ibm866",
    ),
    "iso-8859-2": (
        "iso8859-2",
        "žluť",
        "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    ),
    "iso-8859-3": (
        "iso8859-3",
        "ĉiuĵaŭde",
        "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    ),
    "iso-8859-4": (
        "iso8859-4",
        "ķēniņš",
        "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    ),
    "iso-8859-5": (
        "iso8859-5",
        "привет",
        "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    ),
    "iso-8859-6": (
        "iso8859-6",
        "مرحبا",
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    ),
    "iso-8859-7": (
        "iso8859-7",
        "καλημέρα",
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek",
    ),
    "iso-8859-8": (
        "iso8859-8",
        "שלום",
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual",
    ),
    "iso-8859-8-i": (
        "iso8859-8",
        "שלום",
        "csiso88598i iso-8859-8-i logical",
    ),
    "iso-8859-10": (
        "iso8859-10",
        "þýðing",
        "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    ),
    "iso-8859-13": (
        "iso8859-13",
        "ąžuolas",
        "iso-8859-13 iso8859-13 iso885913",
    ),
    "iso-8859-14": (
        "iso8859-14",
        "ŵyneb",
        "iso-8859-14 iso8859-14 iso885914",
    ),
    "iso-8859-15": (
        "iso8859-15",
        "œuvre €",
        "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    ),
    "iso-8859-16": (
        "iso8859-16",
        "școală",
        "iso-8859-16",
    ),
    "koi8-r": (
        "koi8-r",
        "привет",
        "cskoi8r koi koi8 koi8-r koi8_r",
    ),
    "koi8-u": (
        "koi8-u",
        "їжак",
        "koi8-ru koi8-u",
    ),
    "macintosh": (
        "mac_roman",
        "éü",
        "csmacintosh mac macintosh x-mac-roman",
    ),
    "windows-874": (
        "cp874",
        "สวัสดี",
        "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    ),
    "windows-1250": (
        "cp1250",
        "žluť",
        "cp1250 windows-1250 x-cp1250",
    ),
    "windows-1251": (
        "cp1251",
        "привет",
        "cp1251 windows-1251 x-cp1251",
    ),
    "windows-1252": (
        "cp1252",
        "“naïve” €",
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    ),
    "windows-1253": (
        "cp1253",
        "καλημέρα",
        "cp1253 windows-1253 x-cp1253",
    ),
    "windows-1254": (
        "cp1254",
        "şehir",
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254",
    ),
    "windows-1255": (
        "cp1255",
        "שלום",
        "cp1255 windows-1255 x-cp1255",
    ),
    "windows-1256": (
        "cp1256",
        "مرحبا",
        "cp1256 windows-1256 x-cp1256",
    ),
    "windows-1257": (
        "cp1257",
        "ąžuolas",
        "cp1257 windows-1257 x-cp1257",
    ),
    "windows-1258": (
        "cp1258",
        "đương",
        "cp1258 windows-1258 x-cp1258",
    ),
    "x-mac-cyrillic": (
        "mac_cyrillic",
        "привет",
        "x-mac-cyrillic x-mac-ukrainian",
    ),
    "gbk": (
        "gb18030",
        "中文",
        "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    ),
    "gb18030": (
        "gb18030",
        "中文",
        "gb18030",
    ),
    "big5": (
        "big5hkscs",
        "中文",
        "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    ),
    "euc-jp": (
        "euc_jp",
        "日本",
        "cseucpkdfmtjapanese euc-jp x-euc-jp",
    ),
    "iso-2022-jp": (
        "iso2022_jp",
        "日本",
        "csiso2022jp iso-2022-jp",
    ),
    "shift_jis": (
        "cp932",
        "日本",
        "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    ),
    "euc-kr": (
        "cp949",
        "한국",
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    ),
    "utf-16be": (
        "utf-16-be",
        "<p>é",
        "unicodefffe utf-16be",
    ),
    "utf-16le": (
        "utf-16-le",
        "<p>é",
        "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    ),
}
REPLACED = "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement"
